"""The contracts that every part fulfils, for tests of other packages to inherit: `class TestMine(ModelContract)`."""

from recaudit.testing.audits import AuditContract
from recaudit.testing.engines import EngineContract
from recaudit.testing.environments import EnvironmentContract
from recaudit.testing.models import ModelContract
from recaudit.testing.policies import PolicyContract

__all__ = ["AuditContract", "EngineContract", "EnvironmentContract", "ModelContract", "PolicyContract"]
