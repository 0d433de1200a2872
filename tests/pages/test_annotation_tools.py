"""Tasks for Label Studio and Argilla, and their exports; checked with the libraries of these tools, if installed."""

import json

import numpy as np
import pandas as pd
import pytest

from onepos import TableModel
from onepos.exceptions import DataFileError
from onepos.pages.annotation_tools import write_tasks
from onepos.pages.decisions import read_decisions
from onepos.table import complete_table, read_table

#: These libraries use what others have deprecated.
OTHER_LIBRARY = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
TAGS = ["beach", 'a "big" <city>', "night & day"]


@pytest.fixture(scope="module")
def completion(tmp_path_factory):
    """Forty rows with captions and pictures; tags have signs that XML and JSON escape."""
    folder = tmp_path_factory.mktemp("tasks")
    rng = np.random.default_rng(0)
    tags = rng.integers(3, size=40)
    words = np.array([["sand", "waves"], ["towers", "streets"], ["dark", "stars"]])
    table = pd.DataFrame(
        {
            "id": [f"r{number}" for number in range(40)],
            "caption": [" ".join([*words[tag], *rng.choice(words.ravel(), 2)]) for tag in tags],
            "size": rng.integers(9, size=40),
            "photo": [f"pictures/ä {number}.png" for number in range(40)],
            "tag": [TAGS[tag] for tag in tags],
        }
    )
    table.loc[3, ["caption", "tag"]] = ["", np.nan]
    (folder / "pictures").mkdir()
    for number in range(40):
        (folder / "pictures" / f"ä {number}.png").write_bytes(b"picture %d" % number)
    table.to_csv(folder / "photos.csv", index=False)
    data = read_table(folder / "photos.csv", plain=["tag", "id", "caption"])
    model = TableModel(method="logistic", text="caption", id="id", drop="photo", n_positives=1.6)
    return complete_table(model.fit(data.frame, label="tag"), data), folder


def written(completion, tmp_path, tool, **more):
    completion, folder = completion
    paths = write_tasks(completion, tmp_path / "tasks.json", tool, image_folder=folder, **more)
    return json.loads(paths[0].read_text(encoding="utf-8")), paths[1].read_text(encoding="utf-8")


def sets(completion):
    return [tags.split(";") for tags in completion[0].suggested]


def test_label_studio_gets_the_given_and_suggested_tags_chosen(completion, tmp_path):
    tasks, _ = written(completion, tmp_path, "label-studio", image="photo")
    assert [task["data"]["row_id"] for task in tasks] == [f"r{number}" for number in range(40)]
    assert tasks[0]["data"]["image"] == "/data/local-files/?d=pictures/%C3%A4%200.png"
    assert tasks[3]["data"]["given"] == ""
    assert tasks[3]["data"]["text"].startswith("size: ")  # no line for an empty caption
    shares = completion[0].probabilities
    for row, (task, tags) in enumerate(zip(tasks, sets(completion), strict=True)):
        (prediction,) = task["predictions"]
        assert prediction["result"][0]["value"]["choices"] == tags
        assert task["data"]["given"] in [*tags, ""]
        assert prediction["score"] == pytest.approx(shares[tags].iloc[row].min(), abs=1e-4)


@OTHER_LIBRARY
def test_label_studio_accepts_tasks_and_its_annotations_come_back(completion, tmp_path):
    label_interface = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="label-studio-sdk is not installed"
    )
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    tasks, config = written(completion, tmp_path, "label-studio", image="photo", only=["r5", "r0", "r3"])
    interface = label_interface.LabelInterface(config)
    interface.validate()
    for task in tasks:
        assert interface.validate_prediction(task["predictions"][0], return_errors=True) == []
        assert interface.validate_task({"data": task["data"]})
        objects.TaskValue(**task)
    wrong = {
        "model_version": "x",
        "score": 0,
        "result": [{**tasks[0]["predictions"][0]["result"][0], "value": {"choices": ["x"]}}],
    }
    assert interface.validate_prediction(wrong, return_errors=True)

    exported = []
    for task in tasks:
        annotation = interface.generate_sample_annotation()  # as the tool would save it
        exported.append({**task, "id": 7, "annotations": [annotation]})
    (tmp_path / "export.json").write_text(json.dumps(exported))
    decisions = read_decisions(tmp_path / "export.json")
    chosen = decisions[decisions["decision"] == "accept"].groupby("id")["label"].agg(set)
    for task in exported:
        assert chosen[task["data"]["row_id"]] == set(task["annotations"][0]["result"][0]["value"]["choices"])
    assert (decisions["decision"] == "complete").sum() == 3


def test_an_export_of_label_studio_by_hand(tmp_path):
    def annotation(*choices, **more):
        return {"completed_by": 1, "result": [{"from_name": "labels", "value": {"choices": list(choices)}}], **more}

    def task(name, given, *annotations):
        return {"id": 1, "data": {"row_id": name, "given": given}, "annotations": list(annotations)}

    tasks = [
        task("a", "beach", annotation("beach", "night", completed_by={"id": 3, "email": "ada@example.org"})),
        task("b", "beach", annotation("night")),  # the given tag was taken out
        task("c", "beach", annotation("x", was_cancelled=True)),
        task("d", "beach"),
        task("e", "", annotation("x", updated_at="2026-02-01"), annotation("y", updated_at="2026-01-01")),
        task("f", "", annotation("x", updated_at="2026-02-01"), annotation("y", ground_truth=True)),
        task("g", "beach", {"completed_by": 1, "result": []}),  # no label at all
    ]
    (tmp_path / "e.json").write_text(json.dumps(tasks))
    assert read_decisions(tmp_path / "e.json").to_numpy().tolist() == [
        ["a", "beach", "accept", "ada@example.org"],
        ["a", "night", "accept", "ada@example.org"],
        ["a", "", "complete", "ada@example.org"],
        ["b", "night", "accept", "1"],
        ["b", "beach", "reject", "1"],
        ["b", "", "complete", "1"],
        ["e", "x", "accept", "1"],
        ["e", "", "complete", "1"],
        ["f", "y", "accept", "1"],
        ["f", "", "complete", "1"],
        ["g", "beach", "reject", "1"],
        ["g", "", "complete", "1"],
    ]


@pytest.fixture
def argilla(monkeypatch):
    """Argilla's library with a client that no server answers."""
    argilla = pytest.importorskip("argilla", reason="argilla is not installed")
    from argilla._api._client import APIClient

    monkeypatch.setattr(APIClient, "_validate_connection", lambda client: None)
    argilla.Argilla(api_url="http://localhost:1", api_key="none")
    return argilla


@OTHER_LIBRARY
def test_argilla_accepts_records_and_settings_and_its_responses_come_back(completion, tmp_path, argilla):
    records, _ = written(completion, tmp_path, "argilla", image="photo", only=["r5", "r0", "r3"])
    from argilla.records._io import JsonIO as json_io

    settings = argilla.Settings.from_json(tmp_path / "tasks.settings.json")
    settings.validate()
    dataset = argilla.Dataset("photos", settings=settings)
    assert settings.questions["labels"].labels == completion[0].model.labels_
    made = json_io._records_from_json(tmp_path / "tasks.json")
    models = [model.model_dump(mode="json") for model in dataset.records._ingest_records(made)]
    assert [model["external_id"] for model in models] == ["r5", "r0", "r3"]
    for model, place in zip(models, (5, 0, 3), strict=True):
        assert model["fields"] == records[[5, 0, 3].index(place)]["fields"]
        (suggestion,) = model["suggestions"]
        assert suggestion["value"] == sets(completion)[place]
        assert len(suggestion["score"]) == len(suggestion["value"])

    user = "00000000-0000-0000-0000-000000000001"
    for record, tags in zip(made, ([TAGS[0], TAGS[1]], [TAGS[2]]), strict=False):
        record.responses.add(argilla.Response("labels", tags, user_id=user, status="submitted"))
        record._model.status = "completed"
    path = json_io.to_json(made, tmp_path / "export.json")
    decisions = read_decisions(path)
    accepted = decisions[decisions["decision"] == "accept"]
    assert list(zip(accepted["id"], accepted["label"], strict=True)) == [
        ("r5", TAGS[0]),
        ("r5", TAGS[1]),
        ("r0", TAGS[2]),
    ]
    assert decisions.loc[decisions["decision"] == "complete", "id"].tolist() == ["r5", "r0"]
    assert set(decisions["annotator"]) == {user}


def test_an_export_of_argilla_by_hand(tmp_path):
    def record(name, given, status="completed", **responses):
        return {"id": name, "fields": {"text": "t", "given": given}, "responses": responses, "status": status}

    answer = {"value": ["night"], "user_id": "u"}
    records = [
        record("a", "beach", labels=[answer]),
        record("b", "night", labels=[{"value": ["x"], "user_id": "v"}, answer]),
        record("c", "night", status="pending", labels=[answer]),
        record("d", "night"),
    ]
    (tmp_path / "e.json").write_text(json.dumps(records))
    assert read_decisions(tmp_path / "e.json").to_numpy().tolist() == [
        ["a", "night", "accept", "u"],
        ["a", "beach", "reject", "u"],
        ["a", "", "complete", "u"],
        ["b", "night", "accept", "u"],
        ["b", "", "complete", "u"],
    ]


def test_pictures_for_argilla_are_in_the_tasks(completion, tmp_path):
    records, _ = written(completion, tmp_path, "argilla", image="photo", only=["r1"])
    assert records[0]["fields"]["image"] == "data:image/png;base64,cGljdHVyZSAx"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON file"),
        ("{}", "task 1 is none of these"),
        ('[{"annotations": []}, {"annotations": [{"result": []}]}]', "task 2 is none of these"),
        ('[{"annotations": []}, 3]', "task 2 is none of these"),
        ('[{"text": "x"}]', "task 1 is none of these"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    (tmp_path / "e.json").write_text(content)
    with pytest.raises(DataFileError, match=message):
        read_decisions(tmp_path / "e.json")
