"""The kinds of columns the journal's tables are made of."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, Integer, MetaData, Text

METADATA = MetaData()


def text_column(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def time_column(name: str, *, null: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=null)


def int_column(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, Integer, nullable=null)


def big_column(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


def host_column(name: str = "host", *, null: bool = True) -> Column[str]:
    return Column(name, Text, ForeignKey("farm_hosts.host"), nullable=null)


def optional_texts(*names: str) -> list[Column[str]]:
    return [text_column(name, null=True) for name in names]
