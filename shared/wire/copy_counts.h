// Copies counts and sums to and from generated types. Messages and checkpoints have a struct of the
// same fields for each.
#pragma once

#include "shared/metrics/sums.h"
#include "shared/wire/lease_messages.h"

namespace downpour::wire {

template <typename Builder>
void write_counts(const ShardCounts& counts, Builder out) {
  out.setBatches(counts.batches);
  out.setRead(counts.read);
  out.setApplied(counts.applied);
  out.setFiltered(counts.filtered);
  out.setSkipped(counts.skipped);
  out.setDropped(counts.dropped);
  out.setQuarantined(counts.quarantined);
  out.setFirstOffset(counts.first_offset);
  out.setEndOffset(counts.end_offset);
}

template <typename Reader>
ShardCounts read_counts(Reader in) {
  return {.batches = in.getBatches(),
          .read = in.getRead(),
          .applied = in.getApplied(),
          .filtered = in.getFiltered(),
          .skipped = in.getSkipped(),
          .dropped = in.getDropped(),
          .quarantined = in.getQuarantined(),
          .first_offset = in.getFirstOffset(),
          .end_offset = in.getEndOffset()};
}

template <typename Builder>
void write_sums(const OutputSums& sums, Builder out) {
  out.setWeight(sums.weight);
  out.setLoss(sums.loss);
  out.setLabel(sums.label);
  out.setLabelSquared(sums.label_squared);
  out.setPrediction(sums.prediction);
  out.setCorrect(sums.correct);
  out.setSquaredError(sums.squared_error);
  out.setAbsoluteError(sums.absolute_error);
  out.setInTopK(sums.in_top_k);
}

template <typename Reader>
OutputSums read_sums(Reader in) {
  return {.weight = in.getWeight(),
          .loss = in.getLoss(),
          .label = in.getLabel(),
          .label_squared = in.getLabelSquared(),
          .prediction = in.getPrediction(),
          .correct = in.getCorrect(),
          .squared_error = in.getSquaredError(),
          .absolute_error = in.getAbsoluteError(),
          .in_top_k = in.getInTopK()};
}

}  // namespace downpour::wire
