"""Label Studio and Argilla: suggestions as tasks that these tools import, and their exports as decisions."""

import json
import mimetypes
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from onepos._utils.files import write_durably
from onepos.exceptions import DataFileError
from onepos.pages.review import picture_path, rows_to_show, what_to_show
from onepos.table.kinds import as_words

if TYPE_CHECKING:
    from onepos.table import Completion

__all__ = ["read_export", "write_tasks"]

Tool = Literal["label-studio", "argilla"]
_QUESTION, _AGENT = "labels", "onepos"  # Name of the question; who suggests


def write_tasks(
    completion: "Completion",
    path: Path,
    tool: Tool,
    *,
    image: str | None = None,
    image_folder: str | Path = "",
    title: str | None = None,
    only: Sequence[str] | None = None,
) -> list[Path]:
    """Write a task per row with the given tag and the suggested tags chosen; and what the tool needs to show it.

    That is a file beside ``path``: the labelling interface of Label Studio (``.xml``), or the settings of a dataset of
    Argilla (``.settings.json``). Pictures are addresses of Label Studio's local files below ``image_folder``; for
    Argilla their content is in the tasks. Returns both files.
    """
    ids, labels = completion.ids(), completion.model.labels_
    written, text, shown = what_to_show(completion, image, title)
    given, probabilities = completion.observed(), completion.probabilities.to_dict("list")
    cells = {name: as_words(written[name]) for name in (title, text, *shown) if name}
    pictures = None if image is None else as_words(written[image])
    make = _label_studio_task if tool == "label-studio" else _argilla_record
    tasks = []
    for row in rows_to_show(ids, only):
        words = "\n".join(f"{name}: {column[row]}" for name, column in cells.items() if column[row])
        tags = [tag for tag in completion.suggested[row].split(completion.separator) if tag]
        scores = {tag: round(float(probabilities[tag][row]), 4) for tag in tags}
        picture = None if pictures is None else _picture(tool, pictures[row], Path(image_folder))
        tasks.append(make(ids[row], words or ids[row], "\n".join(given[row]), scores, picture))
    path.parent.mkdir(parents=True, exist_ok=True)
    if tool == "label-studio":
        beside, content = path.with_suffix(".xml"), _label_studio_interface(labels, with_pictures=image is not None)
    else:
        beside, content = path.with_suffix(".settings.json"), _json(_argilla_settings(labels, image is not None))
    return [write_durably(path, _json(tasks).encode()), write_durably(beside, content.encode())]


def read_export(path: Path) -> Iterator[list[str]]:
    """Yield the decisions of a JSON file that Label Studio or Argilla exported: id, label, decision, annotator.

    A row that somebody submitted is complete: what is not chosen is rejected, also the given tag. Skipped rows and rows
    that wait are left out. Of several annotations of a row Label Studio's ground truth counts, or else the last one.
    """
    try:
        items = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataFileError(f"{path}: is no JSON file ({error}). Export the tasks again.") from error
    for number, item in enumerate(items if isinstance(items, list) else [None]):
        try:
            answer = _label_studio_answer(item) if "annotations" in item else _argilla_answer(item)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataFileError(
                f"{path}: expected a list of tasks with annotations (Label Studio's JSON export), or of records with "
                f"responses (Argilla's to_json), made from tasks of `onepos complete --format`; task {number + 1} is "
                "none of these"
            ) from error
        if answer is None:
            continue
        name, given, tags, annotator = answer
        yield from ([name, tag, "accept", annotator] for tag in tags)
        yield from ([name, tag, "reject", annotator] for tag in given.splitlines() if tag not in tags)
        yield [name, "", "complete", annotator]


def _label_studio_task(name: str, text: str, given: str, scores: dict[str, float], picture: str | None) -> Any:
    """Return a task; its score is that of the least probable suggestion, by which Label Studio can sort."""
    about = ", ".join(f"{label} {score:.0%}" for label, score in scores.items() if label not in given.splitlines())
    choices = {"from_name": _QUESTION, "to_name": "row", "type": "choices", "value": {"choices": list(scores)}}
    data = {
        "row_id": name,
        "text": text,
        "given": given,
        "about": f"Given tag: {', '.join(given.splitlines()) or '–'}. Suggested: {about or '–'}",
    }
    prediction = {
        "model_version": _AGENT,
        "score": min(scores.values(), default=0.0),
        "result": [choices] if scores else [],
    }
    return {"data": data | ({} if picture is None else {"image": picture}), "predictions": [prediction]}


def _label_studio_interface(labels: Sequence[str], *, with_pictures: bool) -> str:
    """Return what Label Studio calls the labelling interface: a row, and a box for each label."""
    lines = ["<View>", '  <Header value="$about" size="5"/>', '  <Text name="row" value="$text"/>']
    if with_pictures:
        lines.insert(2, '  <Image name="picture" value="$image"/>')
    lines.append(f'  <Choices name="{_QUESTION}" toName="row" choice="multiple" showInline="true">')
    return "\n".join(
        [*lines, *(f"    <Choice value={quoteattr(label)}/>" for label in labels), "  </Choices>", "</View>", ""]
    )


def _label_studio_answer(task: Any) -> tuple[str, str, list[str], str] | None:
    """Return id, given tag, labels and annotator of a task; None if nobody submitted an annotation."""
    submitted = [one for one in task["annotations"] if not one.get("was_cancelled")]
    if not submitted:
        return None
    last = max(submitted, key=lambda one: (bool(one.get("ground_truth")), one.get("updated_at") or ""))
    tags = [tag for part in last["result"] if part["from_name"] == _QUESTION for tag in part["value"]["choices"]]
    by = last.get("completed_by", "")
    annotator = by.get("email", by.get("id", "")) if isinstance(by, dict) else by
    return task["data"]["row_id"], task["data"]["given"], tags, str(annotator)


def _argilla_record(name: str, text: str, given: str, scores: dict[str, float], picture: str | None) -> Any:
    suggestion = {"value": list(scores), "score": list(scores.values()), "agent": _AGENT}
    fields = {"text": text, "given": given} | ({} if picture is None else {"image": picture})
    return {"id": name, "fields": fields, "suggestions": {_QUESTION: suggestion} if scores else {}}


def _argilla_settings(labels: Sequence[str], with_pictures: bool) -> dict[str, Any]:
    """Return the settings of a dataset: fields to show, and a question with all labels."""
    text = {"type": "text", "use_markdown": False}
    fields = [
        {"name": "text", "title": "Row", "required": False, "settings": text},
        {"name": "given", "title": "Given tag", "required": False, "settings": text},
    ]
    if with_pictures:
        fields.insert(0, {"name": "image", "title": "Picture", "required": False, "settings": {"type": "image"}})
    options = [{"value": label, "text": label} for label in labels]
    settings = {"type": "multi_label_selection", "options": options, "options_order": "suggestion"}
    question = {"name": _QUESTION, "title": "Which labels apply?", "required": False, "settings": settings}
    return {"guidelines": None, "fields": fields, "questions": [question], "allow_extra_metadata": False}


def _argilla_answer(record: Any) -> tuple[str, str, list[str], str] | None:
    """Return id, given tag, labels and annotator of a record; None if it is not completed."""
    answers = [one for one in (record["responses"] or {}).get(_QUESTION, ()) if one["value"] is not None]
    if record["status"] != "completed" or not answers:
        return None
    return record["id"], record["fields"].get("given", ""), list(answers[-1]["value"]), str(answers[-1]["user_id"])


def _picture(tool: Tool, name: str | None, folder: Path) -> str:
    """Return what a tool takes for a picture: an address, or the picture itself."""
    if not name:
        return ""
    if name.startswith(("data:", "http://", "https://")):
        return name
    path = picture_path(Path(), name)
    if tool == "label-studio":
        return f"/data/local-files/?d={quote(str(path))}"
    kind = mimetypes.guess_type(name)[0] or "image/jpeg"
    return f"data:{kind};base64,{b64encode((folder / path).read_bytes()).decode('ascii')}"


def _json(content: Any) -> str:
    return json.dumps(content, indent=1)  # in ASCII: Argilla reads files in the encoding of the system
