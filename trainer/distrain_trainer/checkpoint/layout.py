"""Lay out a run's state in files of the safetensors format, and divide it among the ranks.

A file consists of the header's length in 8 bytes, the header in JSON with each array's type, shape and offset, and the
arrays' bytes (https://github.com/huggingface/safetensors#format). The package `safetensors` can read these files, but
for writing it would allocate new memory at every save. So this module writes the layout itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from distrain_trainer.checkpoint.arrays import HELD, Cut, Cuts, Field, Fields

# The maximum size of a part, which is one file of a checkpoint. An array that is larger than this gets a part of its
# own. A part is written to the store in one call.
PART_BYTES = 128 * 1024**2
# In the buffer, each part begins at a multiple of ALIGNMENT bytes, which makes copies fast. Large arrays are cut at
# multiples of ALIGNMENT bytes.
ALIGNMENT = 64
# An array below this size in bytes is not cut: one rank saves the whole array.
SMALLEST_CUT = 1024**2
# In a safetensors header, the map under this key contains texts of any kind. The trainer stores the descriptions of cut
# arrays there.
METADATA = "__metadata__"


@dataclass(frozen=True)
class Part:
    """One file of a checkpoint: its header, the types and shapes of its arrays, and the offset of the arrays in the
    buffer.

    `cuts` are the arrays that are divided between several files. For such an array, `fields` contains the type and
    shape of the piece in this file.
    """

    file: str
    data: int
    header: bytes
    fields: Fields
    cuts: Cuts

    @property
    def start(self) -> int:
        """The offset in the buffer of the file's first byte. A file begins with its header."""
        return self.data - len(self.header)

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return len(self.header) + sum(field.size for field in self.fields.values())

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def whole_fields(self) -> dict[str, Field]:
        """The types and shapes of the file's arrays.

        For an array that is cut into pieces, the shape is that of the whole array.
        """
        return {**self.fields, **{name: Field(self.fields[name].dtype, cut.shape) for name, cut in self.cuts.items()}}


def plan(fields: Fields, unshared: Collection[str] = (), *, rank: int = 0, ranks: int = 1) -> list[Part]:
    """Plan the files in which one rank saves its share of a state. All ranks get about the same number of bytes.

    Rank 0 gets all `unshared` arrays, which may be different on each rank. Arrays with larger elements come first,
    which keeps every array aligned.
    """
    parts: list[Part] = []
    groups, cuts = _share(fields, unshared, rank, ranks)
    for group in groups:
        own_cuts = {name: cuts[name] for name in group if name in cuts}
        header = header_of(group, own_cuts)
        start = aligned(parts[-1].end) if parts else 0
        number = rank + ranks * len(parts)
        parts.append(Part(f"state-{number}.safetensors", start + len(header), header, group, own_cuts))
    return parts


def _share(
    fields: Fields, unshared: Collection[str], rank: int, ranks: int
) -> tuple[list[dict[str, Field]], dict[str, Cut]]:
    """Return the types and shapes of the arrays in each of a rank's files.

    Also return a Cut for each array that the rank saves only in part.
    """
    if ranks == 1:
        return _groups(widest_first(fields)), {}
    # Rank 0 also saves all empty arrays: each rank saves a range of bytes, and no range contains an array without
    # bytes.
    own = {name: field for name, field in fields.items() if name in unshared or not field.size}
    shared = widest_first({name: field for name, field in fields.items() if name not in own})
    edges = _edges(shared, sum(field.size for field in own.values()), ranks)
    found, cuts = _between(shared, edges[rank], edges[rank + 1])
    # Rank 0 writes its own arrays to separate files. If shared arrays were in the same file, an own array with small
    # elements could misalign the shared array after it.
    groups = _groups(widest_first(own)) if own and rank == 0 else []
    return groups + (_groups(found) if found or not groups else []), cuts


def _edges(shared: Fields, own: int, ranks: int) -> list[int]:
    """Return the offsets at which the ranks' shares of the shared arrays begin, and the end of the last share.

    Rank 0 also saves `own` bytes of other arrays, so its share of the shared arrays is smaller.
    """
    total = sum(field.size for field in shared.values())
    first = max(0, (own + total) // ranks - own)
    even = [first + (total - first) * number // (ranks - 1) for number in range(ranks)]
    return [0, *(_snapped(shared, edge) for edge in even)]


def _snapped(shared: Fields, edge: int) -> int:
    """Move an offset back to the nearest place at which the sequence of arrays may be divided between two ranks.

    A large array may be divided at every multiple of ALIGNMENT bytes, a small array only at its start.
    """
    place = 0
    for field in shared.values():
        if edge < place + field.size:
            return place if field.size < SMALLEST_CUT else edge - (edge - place) % ALIGNMENT
        place += field.size
    return place


def _between(shared: Fields, first: int, last: int) -> tuple[dict[str, Field], dict[str, Cut]]:
    """Return the type and the shape of each array between two offsets in the sequence of shared arrays.

    If only a piece of an array is between the offsets, return the shape of the piece. Also return a Cut for each such
    array: the index of the piece's first element, and the shape of the whole array.
    """
    found: dict[str, Field] = {}
    cuts: dict[str, Cut] = {}
    place = 0
    for name, field in shared.items():
        width = HELD[field.dtype].itemsize
        start, stop = (min(max(edge - place, 0), field.size) // width for edge in (first, last))
        if stop - start == field.size // width:
            found[name] = field
        elif start < stop:
            found[name], cuts[name] = Field(field.dtype, (stop - start,)), Cut(start, field.shape)
        place += field.size
    return found, cuts


def _groups(fields: Fields) -> list[dict[str, Field]]:
    groups: list[dict[str, Field]] = [{}]
    size = 0
    for name, field in fields.items():
        if groups[-1] and size + field.size > PART_BYTES:
            groups.append({})
            size = 0
        groups[-1][name] = field
        size += field.size
    return groups


def widest_first(fields: Fields) -> dict[str, Field]:
    return dict(sorted(fields.items(), key=lambda item: -HELD[item[1].dtype].itemsize))


def header_of(fields: Fields, cuts: Cuts) -> bytes:
    told: dict[str, object] = {METADATA: {name: json.dumps(asdict(cut)) for name, cut in cuts.items()}} if cuts else {}
    place = 0
    for name, field in fields.items():
        told[name] = {"dtype": field.dtype, "shape": field.shape, "data_offsets": [place, place + field.size]}
        place += field.size
    text = json.dumps(told, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def header_size(content: bytes | bytearray) -> int:
    """Return the size of a file's header in bytes, given the file's first 8 bytes."""
    return 8 + int.from_bytes(content[:8], "little")


def parse(file: str, header: bytes, size: int) -> Part:
    """Parse the header of a file of `size` bytes.

    Raises ValueError unless `header` is the header of a safetensors file with `size` bytes.
    """
    try:
        told = json.loads(header[8:])
        texts = told.pop(METADATA, {})
        in_order = sorted(told.items(), key=lambda item: int(item[1]["data_offsets"][0]))
        fields = {name: Field(each["dtype"], tuple(each["shape"])) for name, each in in_order}
        cuts = {name: _cut_of(texts[name]) for name in fields if name in texts}
        part = Part(file, len(header), header, fields, cuts)
        is_whole = part.size == size
    # OverflowError is raised if a damaged header contains an infinite number.
    except (
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
        UnicodeDecodeError,
        json.JSONDecodeError,
    ):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{file} is no file of arrays")
    return part


def _cut_of(text: str) -> Cut:
    told = json.loads(text)
    return Cut(int(told["start"]), tuple(int(size) for size in told["shape"]))


def lay_out(parts: Iterable[Part]) -> list[Part]:
    """Place the arrays of a checkpoint's files in one buffer. The pieces of each cut array then form the whole array.

    Raises ValueError if a piece of an array is missing or out of order.
    """
    placed: list[Part] = []
    end = 0
    # The cut array whose next piece must follow, and the index of the first element of this piece. None if no array is
    # incomplete.
    following: tuple[str, int] | None = None
    for part in parts:
        end = end if following else aligned(end)
        placed.append(replace(part, data=end))
        for name, field in part.fields.items():
            following = _after(part, name, following)
            end += field.size
    if following:
        raise ValueError(f"no file has the end of {following[0]}")
    return placed


def _after(part: Part, name: str, following: tuple[str, int] | None) -> tuple[str, int] | None:
    """Check the array `name` of a file. Return the piece that must follow it, or None if the array is complete.

    A piece is given as the name of its array and the index of its first element. `following` is the piece that must
    come next, or None if any array may come next. Raises ValueError if the file has another piece at this place, or
    only the later part of an array.
    """
    piece, cut = part.fields[name], part.cuts.get(name)
    start = cut.start if cut else 0
    width = HELD[piece.dtype].itemsize
    stop, whole = start + piece.size // width, part.whole_fields[name].size // width
    if (name, start) != (following or (name, 0)) or stop > whole:
        raise ValueError(f"{part.file}: elements {start} to {stop} of {name} are out of place")
    return (name, stop) if stop < whole else None


def aligned(place: int) -> int:
    return place + -place % ALIGNMENT


def places_in(part: Part) -> Iterator[tuple[str, int]]:
    """Yield the name of each array of a part, and its offset in the buffer."""
    place = part.data
    for name, field in part.fields.items():
        yield name, place
        place += field.size


def fields_of(parts: Iterable[Part]) -> dict[str, Field]:
    """Return the types and shapes of the arrays in all files.

    For an array that is cut into pieces, return the shape of the whole array.
    """
    return {name: field for part in parts for name, field in part.whole_fields.items()}


def cuts_of(parts: Iterable[Part]) -> dict[str, Cut]:
    return {name: cut for part in parts for name, cut in part.cuts.items()}
