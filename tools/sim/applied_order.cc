#include "tools/sim/applied_order.h"

#include "shared/base/hash.h"

namespace downpour::sim {

void AppliedOrder::Set::add(uint32_t batch) {
  ++count;
  sum += mix64(uint64_t{batch} + 1);
}

AppliedOrder::AppliedOrder(uint32_t partitions) : steps_(partitions) {
  for (uint32_t p = 0; p < partitions; ++p) {
    steps_[p].parent = p;
    by_set_[{PartitionId(p), Set{}}] = {p};
  }
}

AppliedOrder::Node AppliedOrder::after(PartitionId p, Node from, uint32_t batch) {
  Set set = steps_[from].set;
  set.add(batch);
  std::vector<Node>& same = by_set_[{p, set}];
  for (const Node node : same) {
    if (steps_[node].parent == from) return node;
  }
  const auto node = Node(steps_.size());
  steps_.push_back({.parent = from, .batch = batch, .set = set});
  same.push_back(node);
  return node;
}

std::vector<AppliedOrder::Node> AppliedOrder::find(PartitionId p, const Set& set) const {
  const auto at = by_set_.find({p, set});
  return at == by_set_.end() ? std::vector<Node>{} : at->second;
}

std::vector<uint64_t> AppliedOrder::steps(Node node, size_t batches) const {
  std::vector<uint64_t> steps(batches, 0);
  for (; steps_[node].parent != node; node = steps_[node].parent)
    steps[steps_[node].batch] = steps_[node].set.count;
  return steps;
}

}  // namespace downpour::sim
