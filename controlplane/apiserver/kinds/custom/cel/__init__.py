"""The expression language of validation rules and policies (CEL).

`syntax` reads text, `types` names what values are, `checker` infers them, `library` has the
functions, `evaluation` makes closures, `compiling` puts these together.
"""

from controlplane.apiserver.kinds.custom.cel.compiling import (
    RULE_NAMES,
    Program,
    compile_rule,
    compiled,
)
from controlplane.apiserver.kinds.custom.cel.syntax import CelError
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["RULE_NAMES", "CelError", "Optional", "Program", "compile_rule", "compiled"]
