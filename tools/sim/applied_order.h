// AppliedOrder: in which order each partition has applied batches. Adam's learning rate depends on
// a partition's step number, and watermarks do not say which batch was which step.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::sim {

/// Every order that any ps has had: a tree for each partition, which grows where a ps applies a
/// batch. A partition that is restored or moved goes on from an earlier node. Batches are numbered
/// as Oracle::batches() has them.
class AppliedOrder {
 public:
  using Node = uint32_t;
  /// A set of batches. Two sets with the same sum are the same.
  struct Set {
    uint64_t count = 0;
    uint64_t sum = 0;
    void add(uint32_t batch);
    auto operator<=>(const Set&) const = default;
  };

  explicit AppliedOrder(uint32_t partitions);

  /// The node of a partition that holds nothing.
  Node root(PartitionId p) const { return raw(p); }
  /// The node after `from` applies `batch`.
  Node after(PartitionId p, Node from, uint32_t batch);
  /// Every node whose partition holds exactly this set; empty: no ps ever held it.
  std::vector<Node> find(PartitionId p, const Set& set) const;
  /// By batch, the step that applied it, counted from 1; 0: none. `batches`: how many there are.
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
