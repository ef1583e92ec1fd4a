"""How a long text is cut into windows of tokens."""


def windows(count: int, size: int, overlap: int, most: int) -> list[tuple[int, int]]:
    """Return half-open windows over ``count`` tokens, evenly spread from the first token to the last.

    As few as overlap by ``overlap`` or more; at most ``most``, and then they lie further apart but still end at the end.
    A text that fits, the empty one included, is one window.
    """
    if count <= size:
        return [(0, count)]
    beyond = count - size
    wanted = 1 + -(-beyond // (size - overlap))
    number = max(1, min(wanted, most))
    if number == 1:
        return [(0, size)]
    starts = [index * beyond // (number - 1) for index in range(number)]
    return [(start, start + size) for start in starts]
