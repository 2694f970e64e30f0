"""Columns: a user's schema is a projection, and what does not fit is told when a query is planned."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from steelyard.errors import ConfigurationError
from steelyard.spark.schema import COLUMNS, SCHEMA, requested_columns, schema_for
from steelyard.spark.source import RocketMQSource


def test_the_columns_are_a_contract() -> None:
    assert SCHEMA.simpleString() == (
        "struct<topic:string,broker:string,queue_id:int,offset:bigint,body:binary,tags:string,keys:string,"
        "message_id:string,born_at:timestamp,stored_at:timestamp,reconsume_times:int,properties:map<string,string>>"
    )
    assert all(field.nullable for field in SCHEMA.fields)
    assert [field.name for field in to_arrow_schema(SCHEMA, timezone="UTC")] == list(COLUMNS)


def test_any_columns_in_any_order_are_a_projection() -> None:
    assert requested_columns(SCHEMA) == COLUMNS
    wanted = ("properties", "offset", "topic")
    assert requested_columns(schema_for(wanted)) == wanted


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (StructField("ofset", LongType()), "did you mean offset?"),
        (StructField("Body", StringType()), "did you mean body?"),
        (StructField("xyzzy", LongType()), "choose from topic, broker"),
        (StructField("offset", IntegerType()), "the column 'offset' as int; read it as bigint"),
        (StructField("body", StringType()), "read it as binary, and cast it afterwards"),
        (StructField("offset", LongType(), nullable=False), "leave NOT NULL out"),
        (StructField("properties", MapType(StringType(), StringType(), False)), "read it as map<string,string>"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_with_the_right_one(field: StructField, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        requested_columns(StructType([field]))
    assert says in str(caught.value)


def test_a_schema_has_columns_and_each_once() -> None:
    with pytest.raises(ConfigurationError, match="no columns"):
        requested_columns(StructType([]))
    with pytest.raises(ConfigurationError, match="'offset' twice"):
        requested_columns(schema_for(("offset", "topic", "offset")))


def test_properties_can_be_left_out() -> None:
    source = RocketMQSource({"includeproperties": "false"})
    assert source.schema().names == list(COLUMNS[:-1])
    with pytest.raises(ConfigurationError, match="includeProperties is false"):
        requested_columns(SCHEMA, include_properties=False)


def test_filters_are_not_pushed_because_spark_would_keep_them_for_the_next_query() -> None:
    source = RocketMQSource({"namesrv": "mq:9876", "subscribe": "orders"})
    assert "pushFilters" not in vars(type(source.reader(SCHEMA)))
    assert source.name() == "rocketmq"


def test_a_wrong_schema_is_reported_when_a_reader_is_made() -> None:
    source = RocketMQSource({"namesrv": "mq:9876", "subscribe": "orders"})
    wrong = StructType([StructField("offzet", LongType())])
    for make in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match=r"did you mean offset\?"):
            make(wrong)
