"""text_parse.py FORMAT FILE: measures how fast the installed libraries read a text file on one core. Prints {name: seconds} as JSON."""
import json
import sys
import time


def readers(kind, path):
    if kind == "libsvm":
        from sklearn.datasets import load_svmlight_file
        yield "scikit-learn", lambda: load_svmlight_file(path, zero_based=True)
    else:
        import pandas
        import pyarrow
        from pyarrow import csv
        pyarrow.set_cpu_count(1)
        separator, header = ("\t", None) if kind == "tsv" else (",", 0)
        yield "pandas", lambda: pandas.read_csv(path, sep=separator, header=header)
        yield "pyarrow", lambda: csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False, autogenerate_column_names=header is None),
                                              parse_options=csv.ParseOptions(delimiter=separator))


took = {}
for name, read in readers(sys.argv[1], sys.argv[2]):
    for _ in range(2):
        start = time.perf_counter()
        read()
        took[name] = min(took.get(name, 1e9), time.perf_counter() - start)
print(json.dumps(took))
