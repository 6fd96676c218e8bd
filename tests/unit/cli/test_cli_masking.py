"""Which secrets the command line hides in texts: not those that a config shows, and not in names."""

import json
from pathlib import Path

from fencepost.cli.masking import Masking
from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

CLASS = "io.debezium.connector.postgresql.PostgresConnector"
OTHER = "org.example.Other"


def masking(*configs: dict[str, str]) -> Masking:
    found = Masking()
    for config in configs:
        found.remember(config)
    return found


def test_secret_is_hidden_in_texts() -> None:
    assert masking({"db.password": "hunter22"}).text("login as hunter22 failed") == "login as [hidden] failed"


def test_password_in_a_url_is_hidden_even_if_no_config_has_it() -> None:
    assert masking().text("db://me:pw-of-db@host") == "db://me:[hidden]@host"


def test_secret_is_not_hidden_if_another_config_shows_the_same_word() -> None:
    found = masking({"connector.class": CLASS}, {"db.password": "postgres"}, {"db.password": "debezium"})
    assert found.text(f"{CLASS} is not installed: Postgres") == f"{CLASS} is not installed: Postgres"


def test_word_in_a_shown_name_is_not_hidden() -> None:
    found = masking({"db.password": "orders"})
    found.show("orders-source")
    assert found.text("orders-source failed") == "orders-source failed"


def test_value_of_a_secret_key_is_hidden_even_if_it_is_a_common_word() -> None:
    config = {"connector.class": CLASS, "database.password": "postgres", "database.user": "postgres"}
    assert masking(config).config(config) == {**config, "database.password": "[hidden]"}


def test_faults_show_keys_classes_files_and_names_unmasked(tmp_path: Path) -> None:
    def worker(asked: Asked) -> Answer:
        if "validate" in asked.path:
            return Answer({"error_code": 400, "message": f"no {CLASS}, login hunter22"}, 400)
        return Answer([] if asked.path == "/connector-plugins" else {})

    file = tmp_path / "01-debezium-orders.json"
    orders = {"connector.class": CLASS, "database.password": "debezium"}
    other = {"connector.class": OTHER, "db.password": "hunter22", "source.password": "orders"}
    file.write_text(json.dumps([{"name": "orders", "config": orders}, {"name": "other", "config": other}]))
    with HttpAnswers(worker) as served:
        ran = fencepost("validate", file, "--url", served.url)
    assert f"{file}: orders: connector.class: no {CLASS}, login [hidden]" in ran.err
    assert f"{file}: other: connector.class: no {CLASS}, login [hidden]" in ran.err


def test_value_is_hidden_once_its_key_is_declared_as_a_password() -> None:
    config = {"connector.class": OTHER, "license": "hunter22"}
    found = masking(config)  # nothing is known of the class yet
    found.declare(OTHER, ["license"])
    found.remember(config)
    assert found.text("no server takes hunter22") == "no server takes [hidden]"
