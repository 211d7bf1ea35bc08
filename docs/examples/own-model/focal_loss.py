"""A linear model with the focal loss (Lin et al. 2017), which weights the records that are predicted badly, in NumPy."""

import pathlib

import downpour as dp
import numpy as np

GAMMA = 2.0


def focal_loss(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the loss of each record, -(1 - q)^GAMMA ln q with the probability q of its label, and the derivative by
    its logit."""
    sign = 2 * labels - 1
    q = 1 / (1 + np.exp(-sign * logits))
    q = np.clip(q, 1e-7, 1 - 1e-7)
    loss = -((1 - q) ** GAMMA) * np.log(q)
    return loss, sign * (GAMMA * q * (1 - q) ** GAMMA * np.log(q) - (1 - q) ** (GAMMA + 1))


def main() -> dp.Client:
    with dp.Client.local(pathlib.Path(__file__).with_name("focal.toml"), fresh=True) as ps:
        for batch in ps.batches():
            params = ps.pull(batch)
            bag = batch.bag("weights")
            record = np.repeat(np.arange(batch.records), np.diff(bag.offsets))  # of each key
            logits = np.bincount(record, bag.values * params["weights"][bag.rows, 0], batch.records) + params["bias"][0]
            if not batch.training:
                ps.push(batch, predictions=logits)
                continue
            loss, slope = focal_loss(logits, batch["label"])
            slope /= batch.records
            weights = np.bincount(bag.rows, bag.values * slope[record], len(bag.keys))
            ps.push(batch, {"weights": weights[:, None], "bias": [slope.sum()]}, predictions=logits, loss=loss.mean())
    return ps


if __name__ == "__main__":
    for evaluation in main().summary["evaluations"]:
        print(f"epoch {evaluation['epochs_trained']}: AUC {evaluation['outputs']['used']['auc']:.4f}")
