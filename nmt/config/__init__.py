"""The configuration: its types and checks, its files, and its command line, apart.

This module has the types alone, so that importing it loads neither Hydra nor OmegaConf. The values
stand in ``conf/*.yaml``; `nmt.config.files` reads and writes them, and `nmt.config.command_line`
composes them with what the user said.
"""

from nmt.config.data import DataConfig, SourceConfig
from nmt.config.decoding import DecodingConfig
from nmt.config.model import ModelConfig, RecurrentConfig, TransformerConfig
from nmt.config.schema import Config
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
