#include "shared/job/differences.h"

#include <algorithm>
#include <map>

#include "shared/base/str.h"
#include "shared/job/job_tree.h"

namespace downpour {

std::vector<std::pair<std::string, std::string>> keys_of(const Job& job) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const PrintedTable& table : print_tables(job, /*compress=*/false)) {
    for (const auto& [key, value] : table.values)
      keys.emplace_back(table.path.empty() ? key : str(table.path, ".", key), value);
  }
  return keys;
}

std::vector<KeyValues> differing_keys(std::span<const Job* const> jobs) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> values;
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (const auto& [key, value] : keys_of(*jobs[j])) {
      auto [entry, is_new] = values.try_emplace(key, jobs.size(), "-");
      if (is_new) order.push_back(key);
      entry->second[j] = value;
    }
  }
  std::vector<KeyValues> differing;
  for (const std::string& key : order) {
    if (key == "name" || key == "run_dir" || key == "base_dir") continue;
    std::vector<std::string>& all = values[key];
    if (std::ranges::adjacent_find(all, std::ranges::not_equal_to()) == all.end()) continue;
    differing.push_back({key, std::move(all)});
  }
  return differing;
}

}  // namespace downpour
