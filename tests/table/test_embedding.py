"""Embedded texts and pictures: features, fingerprints, the cache, broken pictures, the command line."""

import json
import os
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.numpy import load_file, save, save_file

import onepos
from onepos.datasets import make_digit_scenes, make_single_positive
from onepos.exceptions import DataFileError
from onepos.metrics import average_precision
from onepos.table import ColumnEncoder, TableModel
from onepos.table.embedders import OnnxEmbedder, PictureEmbedder, SentenceEmbedder
from onepos.table.embedding import assign
from own_embedders import Grid, Letters
from photo_table import photo_table


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own, so that none of the user's is read or written."""
    monkeypatch.setenv("ONEPOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


@pytest.fixture
def photos():
    return photo_table().drop(columns="tags")


def make_model(embed, **more):
    return TableModel(method="logistic", params={"l2": 1.0}, text="caption", id="id", embed=embed, **more)


class TestFeatures:
    def test_vectors_are_centred_on_training_rows_and_scaled_to_length_one(self):
        frame = pd.DataFrame({"a": ["x", "y y", "zz", None], "b": ["one", None, "two", None]})
        encoder = ColumnEncoder(text=["a", "b"], embed=Letters(), max_terms=0).fit(frame.iloc[:3])
        found = encoder.transform(frame)
        raw = Letters().encode(["x. one", "y y", "zz. two"]).astype(np.float32)
        expected = raw - raw.mean(axis=0)
        expected /= np.linalg.norm(expected, axis=1).mean()
        np.testing.assert_allclose(found[:3], expected, atol=1e-6)
        assert not found[3].any()  # no text: the mean
        assert encoder.n_features_ == found.shape[1] == 26

    def test_they_stand_beside_words_and_other_columns(self, photos):
        plain = ColumnEncoder(text="caption", drop=["tag", "id"]).fit(photos)
        both = ColumnEncoder(text="caption", drop=["tag", "id"], embed=Letters()).fit(photos)
        found = both.transform(photos)
        assert both.n_features_ == plain.n_features_ + 26 == found.shape[1]
        np.testing.assert_array_equal(found[:, : plain.n_features_].toarray(), plain.transform(photos).toarray())
        assert both.kinds_ == plain.kinds_

    @pytest.mark.parametrize(
        "returned", [np.zeros(3), np.zeros((2, 4)), np.full((3, 2), np.nan)], ids=["1-d", "rows", "nan"]
    )
    def test_what_encode_returns_is_checked(self, returned):
        class Wrong:
            fingerprint = "1"

            def encode(self, items):
                return returned

        with pytest.raises(ValueError, match="encode of the embedder must return finite numbers of shape"):
            ColumnEncoder(text="a", embed=Wrong()).fit(pd.DataFrame({"a": ["one two", "three two", "four two"]}))

    def test_a_budget_does_not_include_the_embedding(self, photos, monkeypatch):
        class Slow(Letters):
            def encode(self, items):
                clock.now += 1000.0
                return super().encode(items)

        clock = types.SimpleNamespace(now=0.0)
        for module in ("onepos.table.model", "onepos._utils.context"):
            monkeypatch.setattr(f"{module}.time", types.SimpleNamespace(monotonic=lambda: clock.now))
        given = []
        monkeypatch.setattr(
            "onepos.table.model.fit_in_time",
            lambda estimator, *data, started, **more: given.append(started) or estimator.fit(*data),
        )
        make_model(Slow()).fit(photos.dropna(subset="tag"), label="tag")
        assert given == [pytest.approx(clock.now)]


class TestAssign:
    def test_names_say_what_they_embed(self):
        made = assign(["model.onnx", "some/model"], text=["t"], image="i")
        assert isinstance(made[True], OnnxEmbedder)
        assert isinstance(made[False], SentenceEmbedder)
        assert isinstance(assign("efficientnet-lite0", text=[], image="i")[True], PictureEmbedder)
        assert assign(None, text=["t"], image="i") == {}

    def test_without_text_an_embedder_of_ones_own_is_for_pictures(self):
        letters = Letters()
        assert assign(letters, text=[], image="i") == {True: letters}
        assert assign(letters, text=["t"], image="i") == {False: letters}

    @pytest.mark.parametrize(
        ("embed", "text", "image", "message"),
        [
            ("b", [], None, 'embedder of texts, but no column is named as text: give text="COLUMN"'),
            ("b", [], "i", "no column is named as text"),
            ("a.onnx", ["t"], None, "no column is named as image"),
            (["a", "b"], ["t"], None, "got two of texts"),
            (3, ["t"], None, "an object with encode"),
            ("no_such_module:Class", ["t"], None, "cannot import no_such_module:Class"),
            ("own_embedders:Nothing", ["t"], None, "cannot import own_embedders:Nothing"),
            ("own_embedders:np", ["t"], None, "an object with encode"),
        ],
    )
    def test_mistakes(self, embed, text, image, message):
        with pytest.raises(ValueError, match=message):
            assign(embed, text=text, image=image)


class TestStoredModel:
    def test_a_loaded_model_predicts_the_same_with_the_same_embedder(self, photos, tmp_path):
        for embed, again in ((Letters("1"), Letters("1")), (Letters(), Letters())):
            model = make_model(embed).fit(photos, label="tag")
            path = model.save(tmp_path / "m.onepos")
            expected = model.predict_proba(photos)
            pd.testing.assert_frame_equal(TableModel.load(path, embed=again).predict_proba(photos), expected)

    @pytest.mark.parametrize(
        ("trained", "given"),
        [
            (Letters("1"), Letters("2")),
            (Letters("1"), Letters()),
            (Letters(), Letters("1")),
            (Letters(), Letters(power=1.1)),
        ],
        ids=["other fingerprint", "none any more", "none before", "other vectors"],
    )
    def test_another_embedder_under_the_same_name_is_refused(self, photos, tmp_path, trained, given):
        path = make_model(trained).fit(photos, label="tag").save(tmp_path / "m.onepos")
        with pytest.raises(DataFileError, match="trained with another embedder than the 'letters' that is here"):
            TableModel.load(path, embed=given).predict_proba(photos)

    def test_without_the_embedder_it_says_what_it_needs(self, photos, tmp_path):
        path = make_model(Letters()).fit(photos, label="tag").save(tmp_path / "m.onepos")
        with pytest.raises(DataFileError, match="needs 'letters', an embedder of the user's own"):
            onepos.load(path).predict_proba(photos)

    def test_a_model_without_an_embedder_takes_none(self, photos, tmp_path):
        path = make_model(None).fit(photos, label="tag").save(tmp_path / "m.onepos")
        with pytest.raises(ValueError, match="trained without an embedder of texts: leave embed out"):
            TableModel.load(path, embed=Letters())

    def test_the_file_holds_no_weights(self, photos, tmp_path):
        with_it = make_model(Letters()).fit(photos, label="tag").save(tmp_path / "a.onepos")
        header = json.loads(json.loads(_header(with_it))["__metadata__"]["onepos"][32:])
        (about,) = header["model"]["encoder_"]["_embedded"]
        assert about["name"] == "letters"
        assert about["own"] is True
        assert len(about["fingerprint"]) == 26


def _header(path):
    content = path.read_bytes()
    return content[8 : 8 + struct.unpack("<Q", content[:8])[0]]


class TestCache:
    def test_the_second_time_nothing_is_encoded(self, photos, cache):
        first, second = Letters("1"), Letters("1")
        one = ColumnEncoder(text="caption", embed=first).fit(photos).transform(photos)
        assert sorted(first.asked) == sorted(set(photos["caption"]))  # each text once, for fit and transform
        two = ColumnEncoder(text="caption", embed=second).fit(photos).transform(photos)
        assert second.asked == []
        np.testing.assert_array_equal(one.toarray(), two.toarray())
        assert [path.suffix for path in cache.rglob("*") if path.is_file()] == [".safetensors"]

    def test_new_texts_and_another_fingerprint_are_encoded(self, photos):
        ColumnEncoder(text="caption", embed=Letters("1")).fit(photos)
        more = pd.concat([photos, photos.iloc[:1].assign(caption="a new text")])
        again, other = Letters("1"), Letters("2")
        ColumnEncoder(text="caption", embed=again).fit(more)
        assert again.asked == ["a new text"]
        ColumnEncoder(text="caption", embed=other).fit(photos)
        assert sorted(other.asked) == sorted(set(photos["caption"]))

    def test_without_a_fingerprint_nothing_is_kept(self, photos, cache):
        ColumnEncoder(text="caption", embed=Letters()).fit(photos)
        assert not cache.exists()

    def test_damaged_files_are_computed_again(self, photos, cache):
        expected = ColumnEncoder(text="caption", embed=Letters("1")).fit(photos).transform(photos)
        (stored,) = cache.rglob("*.safetensors")
        arrays = load_file(stored)
        arrays["vectors"][0, 0] = np.nan
        for content in (b"", stored.read_bytes()[:-100], b"\xff" * 1000, save(arrays), save({"keys": arrays["keys"]})):
            stored.write_bytes(content)
            again = Letters("1")
            found = ColumnEncoder(text="caption", embed=again).fit(photos).transform(photos)
            np.testing.assert_array_equal(found.toarray(), expected.toarray())
            assert again.asked

    def test_the_oldest_files_go_when_there_is_too_much(self, photos, cache, monkeypatch):
        monkeypatch.setattr("onepos.table.embedding._MOST_BYTES", 6_000)
        for number in range(4):
            texts = pd.DataFrame({"a": [f"text {number} {j}" for j in range(20)]})
            ColumnEncoder(text="a", embed=Letters("1"), max_terms=0).fit(texts)
            newest = max(cache.rglob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
            os.utime(newest, (number, number))
        assert sum(path.stat().st_size for path in cache.rglob("*.safetensors")) <= 6_000
        last = Letters("1")
        ColumnEncoder(text="a", embed=last, max_terms=0).fit(texts)
        assert last.asked == []

    def test_other_vectors_under_the_same_fingerprint_are_an_error(self, photos):
        class More(Letters):
            def encode(self, items):
                return np.hstack([super().encode(items)] * 2)

        ColumnEncoder(text="caption", embed=Letters("1")).fit(photos)
        more = pd.concat([photos, photos.iloc[:1].assign(caption="a new text")])
        with pytest.raises(DataFileError, match=r"got lengths \[26, 52\]. Its fingerprint must change"):
            ColumnEncoder(text="caption", embed=More("1")).fit(more)

    def test_a_full_disk_does_not_end_the_run(self, photos, monkeypatch):
        def full(path):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("onepos.table.embedding.replaced_when_done", full)
        assert ColumnEncoder(text="caption", embed=Letters("1")).fit(photos).n_features_

    def test_a_folder_that_may_not_be_written_is_left_alone(self, photos, tmp_path, monkeypatch):
        folder = tmp_path / "fixed"
        folder.mkdir()
        folder.chmod(0o555)
        monkeypatch.setenv("ONEPOS_CACHE", str(folder))
        ColumnEncoder(text="caption", embed=Letters("1")).fit(photos)
        assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Digit scenes as PNG files, a table of their names and one tag each, and another one with all tags."""
    folder = tmp_path_factory.mktemp("scenes")
    for part, n, seed in (("train", 300, 0), ("test", 100, 1)):
        made = make_digit_scenes(n, grid=(1, 2), max_digits=2, scans=part, random_state=seed)
        names = []
        for number, pixels in enumerate(made.images):
            names.append(f"{part}{number}.png")
            Image.fromarray((255 * pixels).astype(np.uint8)).save(folder / names[-1])
        one = make_single_positive(made.Y, random_state=0).argmax(axis=1)
        sets = [";".join(f"digit {j}" for j in np.flatnonzero(row)) for row in made.Y]
        table = pd.DataFrame({"file": names, "tag": [f"digit {j}" for j in one], "tags": sets})
        table.to_csv(folder / f"{part}.csv", index=False)
    return folder


class TestPictures:
    def test_they_tell_digits(self, scenes):
        frame, test = (pd.read_csv(scenes / f"{part}.csv") for part in ("train", "test"))
        settings = {"method": "logistic", "image": "file", "embed": Grid(), "image_folder": scenes, "drop": "tags"}
        model = TableModel(**settings).fit(frame, label="tag")
        truth = test["tags"].str.get_dummies(";")
        found = model.predict_proba(test)[truth.columns]
        shares = np.tile(frame["tag"].value_counts()[truth.columns].to_numpy(), (len(test), 1))
        assert average_precision(truth, found) > average_precision(truth, shares) + 0.15
        assert model.encoder_.kinds_ == {"file": "image"}
        assert model.facts_["notes"] == []

    def test_if_none_can_be_read_that_is_an_error(self):
        with pytest.raises(DataFileError, match="no row of column 'file' has a picture that can be read"):
            ColumnEncoder(image="file", embed=Grid()).fit(pd.DataFrame({"file": ["absent.png"] * 3}))


@pytest.fixture
def onnx_file(tmp_path):
    """A graph that returns the mean colours of pictures of 12 × 24 pixels, as they come in."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return _mean_colours(onnx, tmp_path / "network" / "model.onnx", [None, 3, 12, 24], mean="0 0 0", std="1 1 1")


def _mean_colours(onnx, path, shape, **about):
    axes = [2, 3] if shape[1] == 3 else [1, 2]
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=axes, keepdims=0)
    given, made = helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("y", kind, [None, 3])
    model = helper.make_model(
        helper.make_graph([node], "colours", [given], [made]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    helper.set_model_props(model, about)
    path.parent.mkdir(exist_ok=True)
    onnx.save(model, path)
    return path


class TestOnnx:
    def test_size_colours_and_batch_are_those_of_the_file(self, tmp_path):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        pictures = [Image.new("RGB", (5, 7), colour) for colour in ("#ff0000", "#0080ff")] * 9
        colours = np.array([[1, 0, 0], [0, 128 / 255, 1]] * 9)
        imagenet = (colours - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        for name, shape, about, expected in (
            ("plain", [None, 3, 12, 24], {"mean": "0 0 0", "std": "[1, 1, 1]"}, colours),
            ("last", [None, 12, 24, 3], {"mean": "0.5,0.5,0.5", "std": "0.5,0.5,0.5"}, 2 * colours - 1),
            ("single", [1, 3, 12, 24], {}, imagenet),
            ("open", [None, 3, None, None], {"Image.NominalPixelRange": "NominalRange_0_255"}, 255 * colours),
            ("turned", [None, 3, 8, 8], {"Image.BitmapPixelFormat": "Bgr8", "mean": "0", "std": "1"}, colours[:, ::-1]),
        ):
            found = OnnxEmbedder(_mean_colours(onnx, tmp_path / f"{name}.onnx", shape, **about)).encode(pictures)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)
        given = OnnxEmbedder(tmp_path / "plain.onnx", mean=(1, 1, 1), std=(2, 2, 2))
        np.testing.assert_allclose(given.encode(pictures), (colours - 1) / 2, atol=1e-6)
        assert given.fingerprint != OnnxEmbedder(tmp_path / "plain.onnx").fingerprint

    def test_other_files_are_refused(self, tmp_path):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        picture = Image.new("RGB", (5, 7))
        (tmp_path / "text.onnx").write_bytes(b"no graph")
        with pytest.raises(DataFileError, match="is no ONNX file that onnxruntime opens"):
            OnnxEmbedder(tmp_path / "text.onnx").encode([picture])
        for shape in ([None, 5, 12, 24], [2, 3, 12, 24]):
            other = _mean_colours(onnx, tmp_path / "other.onnx", shape)
            with pytest.raises(DataFileError, match="to take pictures of shape"):
                OnnxEmbedder(other).encode([picture])
        wrong = _mean_colours(onnx, tmp_path / "wrong.onnx", [None, 3, 12, 24], mean="grey")
        with pytest.raises(DataFileError, match="expected numbers as 'mean'"):
            OnnxEmbedder(wrong).encode([picture])
        with pytest.raises(DataFileError, match="there is no file"):
            OnnxEmbedder(tmp_path / "absent.onnx").fingerprint  # noqa: B018


class TestCommandLine:
    def test_pictures_from_fit_to_complete(self, run, scenes, onnx_file, tmp_path):
        model = tmp_path / "m.onepos"
        columns = ("--label", "tag", "--drop", "tags", "--image", "file", "--embed", onnx_file)
        fast = ("--method", "logistic", "--set", "l2=0.1")
        code, said, err = run("fit", scenes / "train.csv", *columns, *fast, "--out", model)
        assert code == 0, err
        assert f"1 image → 3 features\nembedder    {onnx_file}\n" in said
        code, _, err = run("predict", model, scenes / "test.csv", "--out", tmp_path / "p.csv")
        assert code == 0, err
        loaded = TableModel.load(model, image_folder=scenes)
        expected = loaded.predict_proba(pd.read_csv(scenes / "test.csv"))["digit 3"]
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["p(digit 3)"], expected, atol=1e-5)
        for more in ((*columns, *fast), ("--model", model, "--image", "file", "--review", tmp_path / "r.html")):
            code, _, err = run("complete", scenes / "train.csv", *more, "--out", tmp_path / "c.csv")
            assert code == 0, err
            assert "suggested" in pd.read_csv(tmp_path / "c.csv").columns

    def test_another_or_no_embedder_is_one_line(self, run, scenes, onnx_file, tmp_path):
        onnx = pytest.importorskip("onnx")
        model = tmp_path / "m.onepos"
        columns = ("--label", "tag", "--drop", "tags", "--image", "file", "--embed", onnx_file)
        assert run("fit", scenes / "train.csv", *columns, "--method", "frequency", "--out", model)[0] == 0
        moved = onnx_file.rename(tmp_path / "moved.onnx")
        predict = ("predict", model, scenes / "test.csv", "--out", tmp_path / "p.csv")
        evaluate = ("evaluate", model, scenes / "test.csv", "--label", "tags", "--separator", ";")
        for command in (predict, evaluate):
            code, _, err = run(*command)
            assert code == 2
            assert err.splitlines()[-1].startswith(f"onepos: the model needs the embedder '{onnx_file}': there is no")
            assert err.splitlines()[-1].endswith("--embed NAME or package.module:Class.")
            assert run(*command, "--embed", moved)[0] == 0  # the place does not matter
        _mean_colours(onnx, moved, [None, 3, 12, 24], mean="0.5")
        for command in (predict, evaluate):
            code, _, err = run(*command, "--embed", moved)
            assert code == 2
            assert err.splitlines()[-1].startswith("onepos: the model was trained with another embedder")
        assert not (tmp_path / "p.csv.part").exists()

    def test_a_class_of_the_working_folder(self, run, scenes, tmp_path, monkeypatch):
        code = "import numpy as np\n\nclass Grey:\n    def encode(self, items):\n"
        code += (
            "        return np.array([np.asarray(one.convert('L').resize((12, 4))).ravel() / 255 for one in items])\n"
        )
        (tmp_path / "my_own_embedder.py").write_text(code)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        embed = ("--embed", "my_own_embedder:Grey")
        columns = ("--label", "tag", "--drop", "tags", "--image", "file", "--method", "logistic", "--set", "l2=0.1")
        code, said, err = run("fit", scenes / "train.csv", *columns, *embed, "--out", "m.onepos")
        assert code == 0, err
        assert "embedder    my_own_embedder:Grey\n" in said
        predict = ("predict", "m.onepos", scenes / "test.csv", "--out", "p.csv")
        code, _, err = run(*predict)  # a file names no code
        assert code == 2
        assert "the model needs 'my_own_embedder:Grey', an embedder of the user's own. Give" in err
        assert run(*predict, *embed)[0] == 0

    def test_mistakes_are_one_line(self, run, scenes, tmp_path):
        fit = ("fit", scenes / "train.csv", "--label", "tag", "--out", tmp_path / "m.onepos")
        for more, message in (
            (("--embed", "x"), "no column is named as text: give --text COLUMN."),
            (("--image", "absent", "--embed", "x.onnx"), "there is no column 'absent' (named as image)"),
            (("--text", "tags", "--embed", str(scenes)), "expected weights (model.safetensors) in the folder"),
            (("--image", "file", "--embed", str(scenes)), "--embed gives an embedder of texts"),
        ):
            code, _, err = run(*fit, *more)
            assert code == 2
            assert message in err.splitlines()[-1]


class TestFingerprint:
    def test_it_depends_on_weights_and_settings_and_on_nothing_else(self, tmp_path):
        def made(name, weights=0.0, **files):
            folder = tmp_path / name
            folder.mkdir()
            save_file({"weight": np.full(3, weights)}, folder / "model.safetensors")
            for stem, text in files.items():
                (folder / f"{stem}.json").write_text(text)
            return SentenceEmbedder(str(folder)).fingerprint

        first = made("a", config="1", README="x")
        assert made("b", config="1", README="y") == first
        assert len({first, made("c", 1.0, config="1"), made("d", config="2"), made("e", modules="1")}) == 4


def test_the_hub_is_asked_for_a_copy_on_this_machine_first(monkeypatch, tmp_path):
    """A stand-in for huggingface_hub: the first call finds nothing, the second downloads."""
    asked = []

    def snapshot_download(repository, *, local_files_only, **patterns):
        asked.append((repository, local_files_only))
        if local_files_only or "absent" in repository:
            raise FileNotFoundError("not cached")
        save_file({"weight": np.zeros(1)}, tmp_path / "model.safetensors")
        return str(tmp_path)

    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert SentenceEmbedder("all-MiniLM-L6-v2").folder == Path(tmp_path)
    assert asked == [
        ("sentence-transformers/all-MiniLM-L6-v2", True),
        ("sentence-transformers/all-MiniLM-L6-v2", False),
    ]
    stored = SentenceEmbedder("all-MiniLM-L6-v2", download=False)
    with pytest.raises(DataFileError, match="was not downloaded"):
        stored.folder  # noqa: B018
    with pytest.raises(DataFileError, match="'some/absent' to be a folder, or a model"):
        SentenceEmbedder("some/absent").folder  # noqa: B018


@pytest.mark.parametrize(
    "modules", ['[{"type": "evil.Run"}]', '[{"type": "sentence_transformersx.A"}]', "[1]", "{", "[" * 9999]
)
def test_a_folder_that_names_other_code_is_refused_before_any_import(tmp_path, monkeypatch, modules):
    monkeypatch.setitem(sys.modules, "sentence_transformers", types.SimpleNamespace())
    logging = types.SimpleNamespace(disable_progress_bar=lambda: None)
    monkeypatch.setitem(
        sys.modules, "transformers", types.SimpleNamespace(utils=types.SimpleNamespace(logging=logging))
    )
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "modules.json").write_text(modules)
    with pytest.raises(DataFileError, match=r"code outside|no list of modules"):
        SentenceEmbedder(str(tmp_path)).encode(["text"])
