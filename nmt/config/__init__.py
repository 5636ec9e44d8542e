"""The types of the configuration.

Importing them loads neither Hydra nor OmegaConf. Their values are in ``conf/*.yaml``:
`nmt.config.command_line` composes them with the user's overrides, `nmt.config.files` checks the
result and reads and writes a run's ``config.yaml``, and `nmt.config.combining` combines it with the
configuration of an earlier run.
"""

from nmt.config.data import DataConfig
from nmt.config.decoding import DecodingConfig
from nmt.config.model import ModelConfig, RecurrentConfig, TransformerConfig
from nmt.config.schema import Config
from nmt.config.sources import SourceConfig
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import TrainingConfig

__all__ = [
    "Config",
    "DataConfig",
    "DecodingConfig",
    "ModelConfig",
    "RecurrentConfig",
    "SourceConfig",
    "TokenizerConfig",
    "TrainingConfig",
    "TransformerConfig",
]
