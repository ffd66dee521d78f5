"""Files of documents: what is read of them is what JSON can say, or told by its place."""

import io

import pytest

from muster.cli import documents
from muster.configuration import find
from muster.errors import NotConfigured
from tests.unit.cli.builders import JOB, accepted, accepted_all


def test_a_date_stays_the_text_that_was_written(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    days = "{day: 2026-11-25, at: 2026-11-25T10:00:00Z, 2026-11-25: x}"
    (tmp_path / "job.yaml").write_text(f"name: train\nkind: training\nlabels: {days}\n")

    done = muster("submit", "-f", "job.yaml")

    assert (0, "") == (done.code, done.err)
    assert gateway.seen[0].body["labels"] == {
        "day": "2026-11-25",
        "at": "2026-11-25T10:00:00Z",
        "2026-11-25": "x",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n---\nb: {c: [!!binary aGk=]}", "jobs.yaml, document 2: b.c[0]: must be text"),
        ("a: 1\nb:\n  c: 1\n  c: 2", "jobs.yaml, line 4: the field `c` stands in line 3 already"),
        ('{"a": 1, "a": 1}', "jobs.yaml, line 1: the field `a` stands in line 1 already"),
        ("1: a\n'1': b", "jobs.yaml, line 2: the field `1` stands in line 1 already"),
        ("a: .inf", "jobs.yaml, document 1: a: must be a finite number"),
        ("labels: {on: x}", "jobs.yaml, document 1: labels: the name of a field must be text"),
        ("&a [*a]", "is deeper than 100 levels, or holds itself"),
        ("a: &a {b: *a}", "jobs.yaml, document 1: a.b.b: is deeper than 100 levels"),
        ("[" * 3000 + "]" * 3000, "jobs.yaml is nested too deeply"),
        ("a: !!int x", "jobs.yaml holds a value that is not what its tag says"),
        ("a: !!timestamp x", "jobs.yaml holds a value that is not what its tag says"),
        ("a: !!bool x", "jobs.yaml holds a value that is not what its tag says"),
    ],
)
def test_what_json_cannot_say_is_told_by_its_place(muster, gateway, tmp_path, text, told):
    (tmp_path / "jobs.yaml").write_text(text)

    done = muster("submit", "-f", "jobs.yaml")

    assert 2 == done.code
    assert told in done.err
    assert [] == gateway.seen


def test_aliases_that_repeat_each_other_without_end_are_refused(muster, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "VALUES_MAX", 1_000)
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (tmp_path / "jobs.yaml").write_text("\n".join(["a0: &a0 x", *rows]))

    done = muster("submit", "-f", "jobs.yaml")

    assert 2 == done.code
    assert "jobs.yaml holds more than 1000 values" in done.err


def test_standard_input_that_is_not_utf_8_is_a_usage_error(muster, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"name: \xff\n"), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stdin)

    done = muster("submit", "-f", "-")

    assert 2 == done.code
    assert "standard input cannot be read" in done.err


def test_without_a_standard_input_no_document_was_given(muster, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)

    assert "no document was given" in muster("submit", "-f", "-").err


def test_a_key_and_an_address_lose_the_line_break_that_a_file_gave_them(
    muster, gateway, tmp_path, monkeypatch
):
    gateway.on("POST /v1/workloads", accepted())
    monkeypatch.setenv("MUSTER_KEY", "mk_test\n")
    monkeypatch.setenv("MUSTER_ADDRESS", f" {gateway.address}/\n")
    (tmp_path / "job.json").write_text(str(JOB).replace("'", '"'))

    assert 0 == muster("submit", "-f", "job.json").code
    assert "Bearer mk_test" == gateway.seen[0].headers["Authorization"]
    assert 0 == muster("--key", "mk_test\r\n", "submit", "-f", "job.json").code


@pytest.mark.parametrize("key", ["mk_a\nmk_b", "mk_t\u00e4st", "mk_a b"])
def test_what_cannot_be_a_key_is_refused_before_it_is_sent(muster, gateway, monkeypatch, key):
    monkeypatch.setenv("MUSTER_KEY", key)

    done = muster("queue")

    assert 2 == done.code
    assert "The API key holds" in done.err
    assert [] == gateway.seen


def test_an_empty_option_gives_way_to_the_environment(tmp_path):
    environment = {"MUSTER_ADDRESS": "http://there", "MUSTER_KEY": "mk_env"}

    assert "mk_env" == find("", " ", environment=environment, folder=tmp_path).key
    with pytest.raises(NotConfigured, match="No API key"):
        find("http://x", "\n", environment={}, folder=tmp_path)


def test_a_mapping_that_overrides_what_it_merges_has_no_field_twice(muster, gateway, tmp_path):
    gateway.on("POST /v1/workloads", accepted())
    text = "- &a {name: train, kind: training}\n- {<<: *a, name: second}\n"
    (tmp_path / "jobs.yaml").write_text(text)
    gateway.on("POST /v1/workloads:batch", accepted_all("w1", "w2"))

    assert 0 == muster("submit", "-f", "jobs.yaml").code
    sent = gateway.requests("POST /v1/workloads:batch")[0].body["items"]
    assert ["train", "second"] == [one["spec"]["name"] for one in sent]


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("muster.example", "http://muster.example"),
        ("ftp://muster.example", "http://muster.example"),
        ("http://", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_without_a_scheme_is_a_usage_error_that_says_what_to_write(
    muster, address, written
):
    done = muster("--address", address, "nodes")

    assert 2 == done.code
    assert f"must begin with http:// or https://; write {written}." in done.err
