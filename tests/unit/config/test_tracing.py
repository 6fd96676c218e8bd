"""Settings of traces, from the file and from OpenTelemetry's variables."""

import pytest

from fencepost.config import ConfigError, tracing
from fencepost.config.setting import rendered
from fencepost.config.tracing import TracingConfig, of_environment

ON = {"otel.traces.exporter": "otlp"}


def test_tracing_is_off_unless_the_worker_file_enables_it():
    assert not TracingConfig({}).is_traced
    assert of_environment({}, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "s"}) == {}


def test_tracing_variables_fill_settings_that_the_file_leaves_out():
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/",
        "OTEL_EXPORTER_OTLP_HEADERS": "key=general",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "key=traces",
        "OTEL_SERVICE_NAME": "not this one",
        "OTEL_TRACES_SAMPLER": "",
    }
    file = {**ON, "otel.service.name": "orders"}
    config = TracingConfig({**of_environment(file, environment), **file})
    assert config.spans_url == "http://collector:4318/v1/traces"
    assert config.otel_headers is not None
    assert config.otel_headers.reveal() == "key=traces"
    assert config.otel_service_name == "orders"
    assert config.otel_sampler == "parentbased_always_on"


def test_collector_of_the_file_overrides_the_environment():
    environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://other/spans"}
    assert TracingConfig({**of_environment(ON, environment), **ON}).spans_url == "http://other/spans"
    file = {**ON, "otel.exporter.otlp.endpoint": "http://collector:4318"}
    assert TracingConfig({**of_environment(file, environment), **file}).spans_url == "http://collector:4318/v1/traces"


def test_attributes_of_the_resource_are_decoded():
    config = TracingConfig({**ON, "otel.resource.attributes": "deployment.environment.name=production,team=a%2Cb"})
    assert config.resource == {"deployment.environment.name": "production", "team": "a,b"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("otel.traces.exporter", "console"),
        ("otel.exporter.otlp.endpoint", "collector:4318"),
        ("otel.traces.sampler", "often"),
        ("otel.traces.sampler.arg", "1.1"),
        ("otel.resource.attributes", "production"),
    ],
)
def test_invalid_tracing_value_is_refused_with_its_key(key, value):
    with pytest.raises(ConfigError, match=f"configuration {key}"):
        TracingConfig({key: value})


def test_unsupported_trace_protocol_is_refused_only_if_tracing_is_on():
    environment = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    fault = TracingConfig({**of_environment(ON, environment), **ON}).tracing_fault() or ""
    assert "Invalid value grpc for configuration otel.exporter.otlp.protocol" in fault
    assert TracingConfig({"otel.exporter.otlp.protocol": "grpc"}).tracing_fault() is None


@pytest.mark.parametrize(
    "endpoint",
    [
        {"otel.exporter.otlp.endpoint": "http://user:hunter2@collector:4318"},
        {"otel.exporter.otlp.traces.endpoint": "http://collector:4318/v1/traces?key=hunter2"},
    ],
)
def test_trace_endpoint_with_a_secret_is_refused_without_showing_it(endpoint: dict[str, str]):
    fault = TracingConfig({**ON, **endpoint}).tracing_fault() or ""
    assert "send them in otel.exporter.otlp.headers" in fault
    assert "hunter2" not in fault


def test_missing_tracing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    assert TracingConfig(ON).tracing_fault() is None
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    assert "pip install 'fencepost[otel]'" in (TracingConfig(ON).tracing_fault() or "")
    assert TracingConfig({}).tracing_fault() is None


def test_trace_headers_are_hidden():
    setting = TracingConfig.settings()["otel.exporter.otlp.headers"]
    assert rendered(TracingConfig({setting.key: "key=hunter2"}).otel_headers, setting.kind) == "[hidden]"
