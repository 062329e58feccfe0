"""LeoMini in transformers' Auto classes from `import leo_core` on, without importing torch before anybody else does.

Registering needs LeoMini, and so torch and transformers: seconds that a reader of traces should not wait, and packages it
need not have. So it happens at once where transformers is imported already, and otherwise as soon as it is: a finder in
front of the others notices that transformers, or a module of leo_core that uses it, was imported, and registers then.
"""

import contextlib
import sys
from importlib.abc import MetaPathFinder


def register() -> None:
    """Register model, configuration and processors now. Raises ImportError where torch is missing or an import is half done."""
    from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor

    from leo_core.config import LeoConfig
    from leo_core.model import LeoMini
    from leo_core.processor import LeoImageProcessor, LeoProcessor

    AutoConfig.register(LeoConfig.model_type, LeoConfig, exist_ok=True)
    for auto in (AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText):
        auto.register(LeoConfig, LeoMini, exist_ok=True)
    AutoProcessor.register(LeoConfig, LeoProcessor, exist_ok=True)
    AutoImageProcessor.register(LeoConfig, slow_image_processor_class=LeoImageProcessor, exist_ok=True)


def register_when_possible() -> None:
    """Register now where transformers is there, else at the first chance. Called once, by `import leo_core`."""
    finder = _Waiting()
    sys.meta_path.insert(0, finder)
    finder.attempt()


class _Waiting(MetaPathFinder):
    """Finds nothing itself: it lets the other finders find, and tries to register after the module was executed.

    The first chance may be in the middle of an import of leo_core's own modules, where LeoMini is not there yet; the end of
    that module's import is then the next chance.
    """

    busy = False

    def find_spec(self, name, path=None, target=None):
        if self.busy or (name != "transformers" and not name.startswith("leo_core.")):
            return None
        self.busy = True  # the other finders may ask for modules of their own
        try:
            found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec"))
            spec = next((one for one in found if one is not None), None)
        finally:
            self.busy = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._listen(spec.loader)
        return spec

    def _listen(self, loader) -> None:
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            self.attempt()

        loader.exec_module = exec_module

    def attempt(self) -> None:
        if self.busy or "transformers" not in sys.modules or self not in sys.meta_path:
            return
        self.busy = True
        try:
            with contextlib.suppress(ImportError, OSError):  # no torch, a broken one, or an import half done: who uses LeoMini is told
                register()
                sys.meta_path.remove(self)
        finally:
            self.busy = False
