// AppliedOrder: records the order in which each partition applied batches. Adam's learning rate
// depends on a partition's step number, and watermarks do not contain the step of a batch.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::sim {

/// Holds every order in which any ps has applied batches. Each partition has a tree, and a node is
/// added when a ps applies a batch. A restored or moved partition continues from an earlier node.
/// A batch is identified by its index in Oracle::batches().
class AppliedOrder {
 public:
  using Node = uint32_t;
  /// A set of batches, as their number and the sum of their hashes. Sets with equal count and sum
  /// are treated as equal.
  struct Set {
    uint64_t count = 0;
    uint64_t sum = 0;
    void add(uint32_t batch);
    auto operator<=>(const Set&) const = default;
  };

  explicit AppliedOrder(uint32_t partitions);

  /// Returns the node of a partition that has applied no batch.
  Node root(PartitionId p) const { return raw(p); }
  /// Returns the node that follows `from` when `batch` is applied. Adds it if it is new.
  Node after(PartitionId p, Node from, uint32_t batch);
  /// Returns every node whose batches are exactly this set. Empty if no ps ever held the set.
  std::vector<Node> find(PartitionId p, const Set& set) const;
  /// Returns for each of `batches` batches the step that applied it, starting at 1; 0 if none did.
  std::vector<uint64_t> steps(Node node, size_t batches) const;

 private:
  struct Step {
    Node parent = 0;
    uint32_t batch = 0;
    Set set;
  };
  std::vector<Step> steps_;
  std::map<std::pair<PartitionId, Set>, std::vector<Node>> by_set_;
};

}  // namespace downpour::sim
