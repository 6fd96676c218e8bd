"""The ACLs on single topics."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AclOperation, AclPermissionType

from fencepost.kafka.admin.admin_requests import AdminRequests, Refusals
from fencepost.kafka.wire.cluster import TOPIC_RESOURCE
from fencepost.kafka.wire.errors import ensure

_LITERAL = 3  # the type of a pattern
_ANY = 1
_SECURITY_DISABLED = 54


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """An ACL on the topic with exactly this name, in Kafka's words (`User:a`, `READ`, `ALLOW`)."""

    topic: str
    principal: str
    host: str
    operation: str
    permission: str


class TopicAcls:
    """Lists and creates the ACLs on a cluster's topics."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    def list(self) -> set[TopicAcl]:
        """Return the ACLs on single topics. Empty if the cluster has no authorizer."""
        from fencepost.kafka.kafka_library import DescribeAclsRequest as Request

        request = Request(
            resource_type_filter=TOPIC_RESOURCE,
            resource_name_filter=None,
            pattern_type_filter=_LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )

        def ask() -> set[TopicAcl]:
            answer = self._requests.client.ask(request)
            if answer.error_code == _SECURITY_DISABLED:
                return set()
            ensure(answer.error_code, "the ACLs", answer.error_message)
            return {_acl(of.resource_name, each) for of in answer.resources for each in of.acls}

        return self._requests.client.run("describing the ACLs of topics", ask)

    def create(self, acls: Iterable[TopicAcl]) -> Refusals:
        """Create ACLs on single topics. It is not an error if an ACL exists."""
        from fencepost.kafka.kafka_library import CreateAclsRequest as Request

        wanted = [*acls]
        if not wanted:
            return {}
        creations = [
            Request.AclCreation(
                resource_type=TOPIC_RESOURCE,
                resource_name=each.topic,
                resource_pattern_type=_LITERAL,
                principal=each.principal,
                host=each.host,
                operation=AclOperation[each.operation].value,
                permission_type=AclPermissionType[each.permission].value,
            )
            for each in wanted
        ]
        doing, request = "creating an ACL of topic", Request(creations=creations)
        results = self._requests.client.run(doing, lambda: self._requests.change(request)).results
        return self._requests.refused(doing, zip((each.topic for each in wanted), results, strict=True))


def _acl(topic: str, acl: Any) -> TopicAcl:
    operation, permission = AclOperation(acl.operation), AclPermissionType(acl.permission_type)
    return TopicAcl(topic, acl.principal, acl.host, operation.name, permission.name)
