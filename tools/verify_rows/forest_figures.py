"""Prints the accuracies of scikit-learn's forests: TRAIN.csv TEST.csv, without header, the class in the last column."""
import json
import sys

import pandas
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

train, test = (pandas.read_csv(path, header=None) for path in sys.argv[1:])
x = pandas.concat([train, test])
y = x.pop(x.columns[-1]).to_numpy()
for column in x.select_dtypes(exclude="number"):
    x[column] = x[column].astype("category").cat.codes
x, n = x.to_numpy("f4"), len(train)
print(json.dumps({forest.__name__: forest(n_jobs=-1, random_state=1).fit(x[:n], y[:n]).score(x[n:], y[n:])
                  for forest in (RandomForestClassifier, ExtraTreesClassifier)}))
