"""Dates and numbers with units: what they become, and hostile cells."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import onepos
from onepos.table import ColumnEncoder, Tally, read_table
from onepos.table.measures import _measure
from stored_parts import restored

DAYS = pd.Series(pd.date_range("2019-11-03", periods=200, freq="37h")).dt.normalize()


def encoded(cells, then=None):
    """Encoder, features of ``then`` (default: of the training cells) and what was counted."""
    frame = pd.DataFrame({"x": pd.Series(cells)})
    encoder, tally = ColumnEncoder().fit(frame), Tally()
    made = encoder.transform(frame if then is None else pd.DataFrame({"x": pd.Series(then)}), tally)
    return encoder, np.asarray(made), tally


def expected_of(days):
    """Place, month and weekday by pandas."""
    seconds = (days - pd.Timestamp("1970-01-01")).dt.total_seconds()
    place = (seconds - seconds.mean()) / seconds.std(ddof=0)
    month, weekday = 2 * np.pi * (days.dt.month - 1) / 12, 2 * np.pi * days.dt.day_of_week / 7
    return place, month, weekday


@pytest.mark.parametrize(
    "written",
    [
        "%Y-%m-%d",
        "%B %d, %Y",
        "%b %d, %Y",
        "%d %B %Y",
        "%m/%d/%Y",
        "%d/%m/%Y",
        "%d.%m.%Y",
        "%Y/%m/%d",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%d %H:%M:%S+00:00",
        "%m/%d/%Y %H:%M",
        "%b %d, %Y %I:%M %p",
    ],
)
def test_formats_give_the_same_features_as_dates(written):
    _, from_dates, _ = encoded(DAYS)
    encoder, made, tally = encoded(DAYS.dt.strftime(written))
    assert encoder.kinds_ == {"x": "date"}
    np.testing.assert_allclose(made, from_dates, atol=1e-6)
    assert tally == Tally()


def test_place_month_and_weekday_are_those_of_pandas():
    _, made, _ = encoded(DAYS)
    place, month, weekday = expected_of(DAYS)
    np.testing.assert_allclose(made[:, 0], place, atol=1e-5)
    for first, angle in ((1, month), (3, weekday)):
        circle = made[:, first : first + 2]
        radius = np.linalg.norm(circle, axis=1)
        np.testing.assert_allclose(radius, radius[0], rtol=1e-5)
        # Equal angles between dates, wherever the circle begins.
        difference = np.angle(np.exp(1j * (np.arctan2(circle[:, 0], circle[:, 1]) - angle.to_numpy())))
        np.testing.assert_allclose(np.exp(1j * difference), np.exp(1j * difference[0]), atol=1e-4)


def test_dates_as_objects_of_python_and_with_a_time_zone():
    _, made, _ = encoded(DAYS)
    for same in ([day.date() for day in DAYS], [day.to_pydatetime() for day in DAYS], DAYS.dt.tz_localize("UTC")):
        np.testing.assert_allclose(encoded(pd.Series(same))[1], made, atol=1e-6)
    # The same moments elsewhere on earth; a model of dates also reads words.
    np.testing.assert_allclose(encoded(DAYS.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))[1], made, atol=1e-6)
    np.testing.assert_allclose(encoded(DAYS, DAYS.dt.strftime("%Y-%m-%d"))[1], made, atol=1e-6)


def test_mixed_formats_gaps_and_unreadable_cells_are_counted():
    cells = DAYS.dt.strftime("%B %d, %Y").to_list()
    cells[::3] = DAYS.dt.strftime("%Y-%m-%d").to_list()[::3]
    cells[10:20] = [None] * 5 + [""] * 3 + ["soon", "May 55, 2020"]
    encoder, made, tally = encoded(cells)
    known = np.r_[0:10, 20:200]
    place, _, _ = expected_of(DAYS.iloc[known])
    np.testing.assert_allclose(made[known, 0], place, atol=1e-5)
    assert not made[10:20].any()
    assert "in 2 formats" in encoder.describe()["x"]
    assert tally.notes() == [
        "column 'x': 8 missing, taken as the mean date",
        "column 'x': 2 no date, or of a format that training never saw, taken as gaps",
    ]


@pytest.mark.parametrize("written", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y"])
def test_a_date_is_read_alone_as_it_is_among_others(written):
    # Nanoseconds, or objects beside words, do not change how other cells are read.
    days = pd.Series(pd.date_range("2019-11-03", periods=50)).dt.strftime(written)
    encoder = ColumnEncoder().fit(pd.DataFrame({"x": [*days, pd.Timestamp("3000-01-01").strftime(written)]}))
    cells = ["2020-01-01 00:00:00.123456789", "3000-01-01 00:00:00", "01.02.2020", "2020-02-01", None, "soon"]
    cells += [datetime.date(2020, 1, 5), datetime.datetime(3000, 1, 1, 5), pd.Timestamp("2020-02-01")]
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    alone = [encoder.transform(frame.iloc[[j]]) for j in range(len(frame))]
    np.testing.assert_array_equal(encoder.transform(frame), np.concatenate(alone))
    assert encoder.transform(frame)[6:].any(axis=1).all()
    assert encoder.transform(frame)[1].any() == (written[:2] == "%Y")


def test_future_dates_count_as_the_last_one_and_keep_month_and_weekday():
    last = DAYS.max()
    later = last + pd.DateOffset(years=28)  # after 28 years weekdays repeat
    _, made, tally = encoded(DAYS, pd.Series([last, later, DAYS.min() - pd.DateOffset(years=28)]))
    np.testing.assert_allclose(made[1], made[0], atol=1e-6)
    assert tally.notes() == ["column 'x': 2 outside the range of training, taken as its nearest end"]


def test_one_order_of_day_and_month_holds_for_a_column():
    cells = DAYS.dt.strftime("%d/%m/%Y").to_list()
    cells[0] = "03/25/2020"
    encoder, _, tally = encoded(cells)
    assert "read as day/month/year" in encoder.describe()["x"]
    assert [note[:16] for note in tally.notes()] == ["column 'x': 1 no"]


@pytest.mark.parametrize(
    "cells",
    [
        [str(year) for year in range(1990, 2020)],  # may be counts
        ["2020-01-01"] * 10 + ["later", "never", "who knows"] * 10,
        [f"version {i}.{i % 3}" for i in range(30)],
        [f"PG-{i % 5}" for i in range(30)],
    ],
)
def test_what_is_no_date(cells):
    assert ColumnEncoder().fit(pd.DataFrame({"x": cells, "y": range(len(cells))})).kinds_.get("x") != "date"


def test_one_date_only_is_constant():
    frame = pd.DataFrame({"x": ["May 1, 2020"] * 30, "day": [datetime.date(2020, 5, 1)] * 30, "y": range(30)})
    encoder = ColumnEncoder().fit(frame)
    assert encoder.left_out_ == dict.fromkeys(("x", "day"), "is the same in every row")


MINUTES = np.arange(60, 160)
FILMS = pd.Series([f"{n} min" for n in MINUTES] + ["1 Season"] * 20 + ["3 Seasons"] * 20)


def test_numbers_are_standardised_within_their_unit():
    encoder, made, tally = encoded(FILMS)
    assert encoder.kinds_ == {"x": "measure"}
    minutes, seasons, is_minutes, is_season = made.T
    np.testing.assert_allclose(minutes[:100], (MINUTES - MINUTES.mean()) / MINUTES.std(), atol=1e-6)
    np.testing.assert_array_equal(seasons[100:], [-1.0] * 20 + [1.0] * 20)
    assert not minutes[100:].any()
    assert not seasons[:100].any()
    np.testing.assert_array_equal(is_minutes, [1.0] * 100 + [0.0] * 40)
    np.testing.assert_array_equal(is_season, 1.0 - is_minutes)
    assert tally == Tally()
    assert encoder.describe()["x"].startswith("number with unit: min, season → 4 features")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{:,} km", lambda n: n),
        ("${:,.2f}", lambda n: n),
        ("-€{}", lambda n: -n),
        ("{}%", lambda n: n),
        ("{},5 kg", lambda n: n + 0.5),
        ("{}.25mm", lambda n: n + 0.25),
        ("  {}  ", lambda n: n),
        ("{}e3 Hz", lambda n: 1000 * n),
    ],
)
def test_ways_to_write_a_number(written, read):
    numbers = np.array([*range(990, 1030), 25_000])
    _, made, _ = encoded([written.format(n) for n in numbers])
    values = read(numbers.astype(float))
    np.testing.assert_allclose(made[:, 0], np.clip((values - values.mean()) / values.std(), -5, 5), rtol=1e-5)


def test_a_plural_needs_a_unit_of_two_letters():
    encoder, made, _ = encoded([f"{n} ms" for n in range(20)] + [f"{n} hrs" for n in range(9)], ["3 m", "3", "3 hr"])
    assert encoder.describe()["x"].startswith("number with unit: ms, hrs →")
    assert made.any(axis=1).tolist() == [False, False, True]
    assert encoded([f"{n} {unit}" for n in range(20) for unit in ("m", "ms")])[0].n_features_ == 4


def test_unit_missing_strange_or_unknown():
    _, made, tally = encoded(FILMS, ["90", "90 miles", "long", None, "90 MIN", "1e999 min", "9,000 min"])
    assert not made[[0, 1, 2, 3, 5]].any()
    assert made[4, 2] == made[6, 2] == 1.0
    assert made[6, 0] == 5.0
    assert tally.notes() == [
        "column 'x': 1 missing, taken as no number",
        "column 'x': 4 no number with a unit that training saw, taken as gaps",
    ]


def test_numbers_without_unit_that_are_frequent_are_a_unit():
    encoder, _, _ = encoded([*FILMS, *map(str, range(30))])
    assert encoder.describe()["x"].startswith("number with unit: min, season, none → 6 features")
    encoder, _, _ = encoded([str(n) for n in range(1, 31)])
    assert encoder.describe()["x"].startswith("number written as text → 2 features")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1 bed", "2 beds", "3 beds"] * 10, "category"),  # few values
        ([f"00{i}" for i in range(15)] * 2, "category"),  # codes
        ([f"{i} {street} street" for i, street in enumerate("abcdefghijklmno")] * 2, "category"),  # every cell its own
        ([f"{i} kg" for i in range(15)] * 2 + ["light", "heavy", "huge", "tiny"], "category"),  # a tenth is no number
        (["5 kg"] * 30, None),
        ([f"{i} - {i + 2} kg" for i in range(15)] * 2, "category"),
    ],
)
def test_what_is_no_number_with_a_unit(cells, kind):
    assert ColumnEncoder().fit(pd.DataFrame({"x": cells, "y": range(len(cells))})).kinds_.get("x") == kind


def test_durations_are_seconds():
    spans = pd.Series(pd.to_timedelta(np.arange(30) ** 2, unit="m"))
    np.testing.assert_allclose(encoded(spans)[1], encoded(spans.dt.total_seconds())[1])


def test_a_stored_encoder_gives_every_bit_back():
    frame = pd.DataFrame({"when": DAYS.dt.strftime("%B %d, %Y").head(140), "length": FILMS})
    encoder = ColumnEncoder().fit(frame)
    back = restored(encoder)
    np.testing.assert_array_equal(back.transform(frame), encoder.transform(frame))
    assert (back.describe(), back.n_features_, back.words_) == (encoder.describe(), 9, ["when", "length"])


def test_a_file_gives_the_features_of_its_table(tmp_path):
    """Dates and units stay words when a file is read for prediction, even if a piece of it looks like numbers."""
    frame = pd.DataFrame({"when": DAYS.dt.strftime("%Y-%m-%d").head(140), "length": FILMS, "price": range(140)})
    frame["price"] = frame["price"].astype(str).mask(frame["price"] == 3, "n. a.")
    encoder = ColumnEncoder().fit(frame)
    assert encoder.kinds_ == {"when": "date", "length": "measure", "price": "measure"}
    frame.iloc[20:60].to_csv(tmp_path / "part.csv", index=False)
    read = read_table(tmp_path / "part.csv", words=encoder.words_).frame
    np.testing.assert_array_equal(encoder.transform(read), encoder.transform(frame.iloc[20:60]))


def test_every_column_has_a_line():
    frame = pd.DataFrame(
        {
            "n": range(140),
            "flag": ["yes", "no"] * 70,
            "colour": ["red", "blue"] * 70,
            "empty": None,
            "when": DAYS.head(140),
            "length": FILMS,
            "words": ["a red kite", "two dogs"] * 70,
        }
    )
    lines = ColumnEncoder(text="words").fit(frame).describe()
    assert set(lines) == set(frame.columns)
    assert lines["n"] == "number → 1 feature, standardised"
    assert lines["empty"] == "left out: is empty"
    assert lines["words"] == "text: tf-idf of 4 words → 4 features"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("1,200 km", (1200.0, "km")), ("-$5", (-5.0, "$")), ("3,5 kg", (3.5, "kg")), ("7%", (7.0, "%"))],
)
def test_number_and_unit_of_a_cell(cell, expected):
    assert _measure(cell, ".") == expected


@pytest.mark.parametrize(
    ("cell", "with_point", "with_comma"),
    [
        ("1.210", 1.21, 1210.0),  # only these two depend on the column
        ("1,210", 1210.0, 1.21),
        ("0,375", 0.375, 0.375),
        ("1.210,51", 1210.51, 1210.51),
        ("1,210.51", 1210.51, 1210.51),
        ("1.234.567", 1234567.0, 1234567.0),
        ("13'379.64", 13379.64, 13379.64),
        ("13\u202f379,64", 13379.64, 13379.64),
        ("13 379,64", 13379.64, 13379.64),
        ("$-5.00", -5.0, -5.0),
    ],
)
def test_decimal_signs(cell, with_point, with_comma):
    assert (_measure(cell, ".")[0], _measure(cell, ",")[0]) == (with_point, with_comma)


@pytest.mark.parametrize("cell", ["PG-13", "2020-08-14", "1,234,56", "--5", "1 2", "612 345 678"])
def test_cells_without_a_measure(cell):
    assert _measure(cell, ".") is None


def english(value, places):
    return f"{value:,.{places}f}"


def german(value, places):
    return english(value, places).translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize("places", [0, 2, 3])
def test_a_column_has_one_decimal_sign(places):
    # Whole prices, prices with cents, and weights with grams: the same numbers whichever country wrote them.
    values = np.round(np.random.default_rng(0).uniform(0.5, 1500, 300), places)
    made = {}
    for write in (english, german):
        encoder, made[write], _ = encoded([f"{write(value, places)} €" for value in values])
        assert ("decimal commas" in encoder.describe()["x"]) == (write is german)
    np.testing.assert_array_equal(made[german], made[english])
    np.testing.assert_allclose(made[english][:, 0], (values - values.mean()) / values.std(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sign", [".", ","])
def test_numbers_that_show_no_decimal_sign_are_read_as_numbers_of_one_size(sign):
    # 1.250 kg beside 3 kg is one and a bit, 1.441 € beside 916 € is a thousand.
    kilograms = [f"{n / 8:.3f} kg".replace(".", sign) if n % 8 else f"{n // 8} kg" for n in range(9, 40)]
    prices = [f"{n:,} €".replace(",", sign) for n in range(500, 1500, 25)]
    for cells, values in ((kilograms, np.arange(9, 40) / 8), (prices, np.arange(500, 1500, 25))):
        _, made, _ = encoded(cells)
        np.testing.assert_allclose(made[:, 0], (values - values.mean()) / values.std(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [float, np.float32, lambda value: Decimal(str(value))])
def test_numbers_that_are_no_text_have_no_decimal_commas(kind):
    values = np.round(np.random.default_rng(0).uniform(0.5, 9, 60), 3)
    cells = pd.Series([kind(value) for value in values], dtype=object)
    _, made, _ = encoded([f"{value:.3f}".replace(".", ",") for value in values], cells)
    np.testing.assert_allclose(made[:, 0], (values - values.mean()) / values.std(), rtol=1e-4, atol=1e-5)


def test_a_stored_column_keeps_its_decimal_sign(tmp_path):
    values = np.random.default_rng(0).uniform(0.5, 9, 60)
    frame = pd.DataFrame({"kg": [f"{value:.3f}".replace(".", ",") for value in values], "tag": list("ab") * 30})
    model = onepos.TableModel(method="logistic").fit(frame, label="tag")
    model.save(tmp_path / "m.onepos")
    alone = frame.iloc[:1].assign(kg="1,234")  # which alone could be a thousand
    found = onepos.load(tmp_path / "m.onepos").encoder_.transform(alone)
    np.testing.assert_array_equal(found, model.encoder_.transform(alone))
    assert abs(found[0, 0]) < 5.0


def test_day_month_in_letters_year():
    days = pd.Series(pd.date_range("2020-01-01", periods=90))
    encoder, made, _ = encoded(days.dt.strftime("%d-%b-%Y"))
    assert encoder.kinds_ == {"x": "date"}
    np.testing.assert_allclose(made[:, 0], expected_of(days)[0], rtol=1e-5)
