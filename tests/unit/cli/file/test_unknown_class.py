"""What the command line says of classes and keys that workers do not know: what REST says, and no guess."""

from fencepost.cli.connect import Access, Connect
from fencepost.cli.connector_file import WantedConnector
from fencepost.cli.file.validation import Validation
from fencepost.cli.masking import Masking
from support.http_answers import Answer, Asked, HttpAnswers

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
ELASTIC = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
FILE = "org.apache.kafka.connect.file.FileStreamSinkConnector"
DECLARED = ("connector.class", "iceberg.catalog", "iceberg.tables")
OURS = f"Failed to find any class that implements Connector and which name matches {POSTGRES}. Do this"


def fault(name: str, message: str) -> str:
    def worker(asked: Asked) -> Answer:
        if asked.path == "/connector-plugins":
            return Answer([{"class": FILE}, {"class": "org.apache.kafka.connect.mirror.MirrorSinkConnector"}])
        return Answer({"error_code": 500, "message": message}, 500)

    wanted = WantedConnector("f", "c", {"connector.class": name})
    with HttpAnswers(worker) as served, Connect(Access(served.url)) as connect:
        [found] = Validation(connect, Masking()).validate([wanted]).faults
    return found.text


def of_kafka(name: str) -> str:
    found = (
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: "
    )
    return fault(name, f"{found}PluginDesc{{klass=class {FILE}, name='{FILE}'}}")


def test_unknown_class_is_explained_in_the_workers_words() -> None:
    assert fault(POSTGRES, OURS) == OURS


def test_unknown_class_on_kafka_connect_is_reported_with_its_plugin() -> None:
    assert of_kafka(POSTGRES).endswith(
        "is not installed on these workers: it is in io.debezium:debezium-connector-postgres"
    )
    assert of_kafka(ELASTIC).endswith("it is in confluentinc/kafka-connect-elasticsearch")


def test_class_of_low_similarity_is_not_proposed() -> None:
    assert of_kafka("com.example.OtherSinkConnector").endswith("OtherSinkConnector is not installed on these workers")
    assert of_kafka(FILE.replace("Sink", "Sinc")).endswith(f"did you mean {FILE}?")


def test_key_below_a_declared_key_is_no_typo_and_a_similar_key_is() -> None:
    def worker(asked: Asked) -> Answer:
        found = [
            {"definition": {"name": key, "type": "STRING"}, "value": {"name": key, "errors": []}} for key in DECLARED
        ]
        return Answer({"name": FILE, "error_count": 0, "groups": [], "configs": found})

    config = {"connector.class": FILE, "iceberg.catalog.uri": "u", "iceberg.tabels": "t"}
    with HttpAnswers(worker) as served, Connect(Access(served.url)) as connect:
        verdict = Validation(connect, Masking()).validate([WantedConnector("f", "c", config)])
    assert [(one.key, one.text) for one in verdict.warnings] == [
        ("iceberg.tabels", "nothing reads this key: iceberg.tables is similar")
    ]
