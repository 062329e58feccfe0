"""One exception for everything a user can put right: its text is one sentence with cause, limit and remedy."""


class LeoError(Exception):
    """What went wrong, what is allowed, what to do. Shown to the user as it is, without a stack trace."""


class PictureError(LeoError):
    """A picture that cannot be read or is outside the allowed size."""


class PartError(LeoError):
    """A frozen part (weights from a package) that is missing, damaged or cannot be fetched."""


class CheckpointError(LeoError):
    """A checkpoint that is missing, damaged, of another shape, or holds values that are not numbers."""


class InputError(LeoError):
    """A question, option or combination of inputs that the model cannot take."""
