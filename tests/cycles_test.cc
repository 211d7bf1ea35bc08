// Cycles: no module includes itself through others. A module is a header with its .cc file, or one
// of them alone. A cycle means that none of its modules can be understood, tested or moved alone.
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/source_tree.h"

namespace {

using namespace downpour::testing;

/// The modules that each module includes.
using IncludeGraph = std::map<std::string, std::set<std::string>>;

std::string module_of(std::string_view path) {
  return std::string(path.substr(0, path.rfind('.')));
}

void add_file(IncludeGraph& graph, std::string_view path, std::string_view text) {
  const std::string module = module_of(path);
  std::set<std::string>& included = graph[module];
  for (const Include& include : includes_of(text)) {
    if (is_cpp(include.path) && module_of(include.path) != module)
      included.insert(module_of(include.path));
  }
}

/// Removes modules that include no module that is left, until there are none. Each module that
/// stays is in a cycle or includes one.
void remove_acyclic(IncludeGraph& graph) {
  const auto leads_nowhere = [&](const auto& entry) {
    return std::none_of(entry.second.begin(), entry.second.end(),
                        [&](const std::string& included) { return graph.contains(included); });
  };
  for (bool removed = true; removed;) {
    std::vector<std::string> leaves;
    for (const auto& entry : graph) {
      if (leads_nowhere(entry)) leaves.push_back(entry.first);
    }
    for (const std::string& leaf : leaves) graph.erase(leaf);
    removed = !leaves.empty();
  }
}

/// Returns a shortest cycle through `start`, which begins and ends with it. Empty: there is none.
std::vector<std::string> cycle_through(const IncludeGraph& graph, const std::string& start) {
  std::map<std::string, std::string> included_by;
  std::deque<std::string> queue{start};
  while (!queue.empty()) {
    const std::string module = queue.front();
    queue.pop_front();
    const auto found = graph.find(module);
    if (found == graph.end()) continue;
    for (const std::string& next : found->second) {
      if (next == start) {
        std::deque<std::string> cycle{start};
        for (std::string at = module; at != start; at = included_by.at(at)) cycle.push_front(at);
        cycle.push_front(start);
        return {cycle.begin(), cycle.end()};
      }
      if (included_by.try_emplace(next, module).second) queue.push_back(next);
    }
  }
  return {};
}

/// Returns at least one cycle of each group of modules that include each other, as "a -> b -> a".
std::vector<std::string> find_cycles(IncludeGraph graph) {
  remove_acyclic(graph);
  std::vector<std::string> found;
  for (const auto& [module, included] : graph) {
    const std::vector<std::string> cycle = cycle_through(graph, module);
    // Each cycle is reported once, from its first module in the order of names.
    if (cycle.empty() || *std::min_element(cycle.begin(), cycle.end()) != module) continue;
    std::string text = module;
    for (size_t i = 1; i < cycle.size(); ++i) text += " -> " + cycle[i];
    found.push_back(text);
  }
  return found;
}

TEST_CASE("a cycle of modules is found, across headers and source files", "[tidy]") {
  using Cycles = std::vector<std::string>;
  CHECK(find_cycles({}).empty());
  CHECK(find_cycles({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}).empty());
  CHECK(find_cycles({{"a", {"b"}}, {"b", {"a"}}}) == Cycles{"a -> b -> a"});
  CHECK(find_cycles({{"a", {"b"}}, {"b", {"c"}}, {"c", {"d"}}, {"d", {"b"}}}) ==
        Cycles{"b -> c -> d -> b"});
  CHECK(find_cycles({{"a", {"b"}}, {"b", {"a"}}, {"c", {"d"}}, {"d", {"a", "c"}}}) ==
        Cycles{"a -> b -> a", "c -> d -> c"});

  IncludeGraph graph;
  add_file(graph, "x/a.h", "#include \"x/b.h\"\n#include <map>\n");
  add_file(graph, "x/a.cc", "#include \"x/a.h\"\n");
  add_file(graph, "x/b.h", "#pragma once\n");
  CHECK(find_cycles(graph).empty());
  add_file(graph, "x/b.cc", "#include \"x/b.h\"\n\n#include \"x/a.h\"\n");
  CHECK(find_cycles(graph) == Cycles{"x/a -> x/b -> x/a"});
}

TEST_CASE("no modules of the tree include each other", "[tidy]") {
  IncludeGraph graph;
  for (const std::string& path : files_of_tree()) {
    if (is_cpp(path)) add_file(graph, path, text_of_file(path));
  }
  CHECK(graph.size() > 100);  // the check has read the tree
  std::string cycles;
  for (const std::string& cycle : find_cycles(graph)) cycles += cycle + "\n";
  INFO(cycles);
  CHECK(cycles.empty());
}

}  // namespace
