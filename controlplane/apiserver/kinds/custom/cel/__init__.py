"""The expression language of validation rules and policies (CEL).

From a text to something that runs: `syntax` reads the text into a `tree` and `macros` write calls
such as `all` out; `checker` infers `types` by the `signatures` of functions; `evaluation` makes
closures, over `attributes` for what is reached by fields, of the functions in `library`;
`compiling` puts these together. `metering` counts what a run costs.
What it may cost before it runs: `declared` has the sizes that a schema allows, `estimates` and
`call_costs` the `amounts` that follow from them, `costs` the limits.
"""

from controlplane.apiserver.kinds.custom.cel.compiling import (
    RULE_NAMES,
    Program,
    compile_rule,
    compiled,
)
from controlplane.apiserver.kinds.custom.cel.evaluation import PlanError
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["RULE_NAMES", "CelError", "Optional", "PlanError", "Program", "compile_rule", "compiled"]
