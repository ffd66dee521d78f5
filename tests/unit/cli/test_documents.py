"""Files of documents: what is read of them is what JSON can say, or told by its place."""

import io

import pytest

from muster.cli import documents
from muster.configuration import find
from muster.errors import NotConfigured
from tests.unit.cli.builders import JOB, accepted, accepted_all
from tests.unit.cli.gateway import problem


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


def test_all_that_json_cannot_say_is_told_at_once(muster, gateway, tmp_path):
    text = "a: .inf\nb: [!!binary aGk=, .nan]\n---\nlabels: {on: x}\n--- 7\n---\n[{a: 1}, x]\n"
    (tmp_path / "jobs.yaml").write_text(text)

    done = muster("submit", "-f", "jobs.yaml")

    assert 2 == done.code
    assert [] == gateway.seen
    assert [
        "error: several faults:",
        "jobs.yaml, document 1: a: must be a finite number",
        "jobs.yaml, document 1: b[0]: must be text or a number, not bytes",
        "jobs.yaml, document 1: b[1]: must be a finite number",
        "jobs.yaml, document 2: labels: the name of a field must be text; put True in quotes",
        "jobs.yaml, document 3: must be a mapping, not int",
        "jobs.yaml, document 4, item 2: must be a mapping, not str",
    ] == [line.strip() for line in done.err.splitlines()]


def test_of_very_many_faults_the_first_fifty_are_told(muster, tmp_path):
    (tmp_path / "jobs.yaml").write_text("---\n7\n" * 60)

    lines = muster("submit", "-f", "jobs.yaml").err.splitlines()

    assert (52, "  and 10 more") == (len(lines), lines[-1])


def test_a_refused_document_is_told_with_its_file_and_number_and_every_field(
    muster, gateway, tmp_path
):
    (tmp_path / "good.yaml").write_text("name: good\nkind: training\n")
    (tmp_path / "bad.yaml").write_text("name: a\n---\n- {name: b, x: 1}\n")
    errors = [
        {"field": "x", "value": "1", "rule": "unknown field"},
        {"field": "kind", "value": "", "rule": "is required"},
    ]
    refusal = problem(400, "x: unknown field", errors=errors)
    gateway.on("POST /v1/workloads:batch", refusal)
    gateway.on("POST /v1/workloads", accepted(), refusal)

    done = muster("submit", "-f", "good.yaml", "-f", "bad.yaml")

    assert 5 == done.code
    assert "bad.yaml, document 1 (a):" in done.err
    assert "bad.yaml, document 2, item 1 (b):" in done.err
    assert 2 == done.err.count("  x: unknown field (given: 1)\n  kind: is required\n")


def test_what_is_refused_from_standard_input_is_told_as_such(muster, gateway, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("name: a\n"))
    gateway.on("POST /v1/workloads", problem(400, "no"))

    assert "standard input, document 1 (a):" in muster("submit", "-f", "-").err


def test_all_documents_of_an_organisation_that_are_not_what_they_must_be_are_told(
    muster, gateway, tmp_path
):
    text = "kind: Quue\nname: q\n---\nkind: Team\n---\nkind: ApiKey\nlabel: x\n"
    (tmp_path / "org.yaml").write_text(text)

    done = muster("admin", "apply", "-f", "org.yaml")

    assert 2 == done.code
    assert [] == gateway.seen
    told = [line.strip().partition(": ") for line in done.err.splitlines()[1:]]
    assert [
        ("org.yaml, document 1", "kind"),
        ("org.yaml, document 2", "name"),
        ("org.yaml, document 3", "name"),
        ("org.yaml, document 3", "team"),
        ("org.yaml, document 3", "label"),
    ] == [(place, rest.partition(":")[0]) for place, _, rest in told]


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_a_document_of_the_organisation_that_is_refused_is_told_with_its_place(
    muster, gateway, tmp_path, dry_run
):
    text = "kind: Queue\nname: q\nweight: x\n---\nkind: Team\nname: t\n"
    (tmp_path / "org.yaml").write_text(text)
    error = {"field": "weight", "value": '"x"', "rule": "Expected `int`"}
    gateway.on("PATCH /v1/queues/q", problem(400, "weight", errors=[error]))
    gateway.on("PATCH /v1/teams/t", {"name": "t", "version": 1})
    refused = {"kind": "Queue", "name": "q", "result": "refused", "errors": [error]}
    created = {"kind": "Team", "name": "t", "result": "created", "errors": []}
    nothing = {"before": None, "after": None}
    items = [created | nothing, refused | nothing]
    gateway.on("POST /v1/organisation:dry-run", {"items": items})

    done = muster("admin", "apply", "-f", "org.yaml", *dry_run)

    assert 5 == done.code
    assert "org.yaml, document 1, Queue/q" in done.err
    assert "  weight: Expected `int`" in done.err
