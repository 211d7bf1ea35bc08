"""Prints the public names of tf.data and tf.distribute that a user needs, as JSON."""
import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

data, distribute = tf.data.experimental, tf.distribute
PLACES = [tf.data, tf.data.Dataset, tf.data.Options, tf.data.ThreadingOptions, data, data.service, data.AutotuneOptions, data.DistributeOptions,
          data.OptimizationOptions, data.AutoShardPolicy, data.service.ShardingPolicy, distribute, distribute.experimental, distribute.coordinator,
          distribute.coordinator.ClusterCoordinator, distribute.cluster_resolver, distribute.experimental.coordinator, distribute.experimental.partitioners,
          distribute.InputContext, distribute.InputReplicationMode, distribute.ReduceOp, distribute.Strategy, tf.feature_column, tf.keras.callbacks]
LAYERS = ["Hashing", "StringLookup", "IntegerLookup", "Discretization", "Normalization", "CategoryEncoding", "HashedCrossing", "TextVectorization", "Rescaling"]
NOT_APIS = set(dir(int)) | {"count", "index", "experimental", "device", "devices"}  # names that all enumerations and named tuples have

names = {name for place in PLACES for name in dir(place) if not name.startswith("_")}
names |= set(distribute.InputOptions._fields) | set(LAYERS)
print(json.dumps(sorted(names - NOT_APIS)))
