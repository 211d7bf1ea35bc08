#include "tools/cli/tf_config.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "shared/base/str.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kIndexMax = 65'535;
constexpr const char* kShape =
    R"(an example: {"cluster": {"chief": ["host:2222"], "ps": ["host:2223"], )"
    R"("worker": ["host:2224"]}, )"
    R"("task": {"type": "worker", "index": 0}})";

Error wrong(std::string what, const std::string& part, std::string hint = {}) {
  return Error{ErrorCode::kConfig, std::move(what),
               part.empty() ? "TF_CONFIG" : str("TF_CONFIG: ", part), std::move(hint), "DP-2000"};
}

/// Returns the text of a value for a message, shortened.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

Result<uint32_t> parse_index(const std::string& text, const std::string& part) {
  uint32_t index = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), index);
  if (end.ec == std::errc() && end.ptr == text.data() + text.size() && index <= kIndexMax)
    return index;
  return wrong(str("`", text, "` is not an index from 0 to ", kIndexMax), part);
}

/// Checks HOST:PORT. The host may be an IPv6 address in brackets.
Result<std::string> parse_address(const Json& value, const std::string& part) {
  if (!value.is_string()) return wrong(str(shown(value), " is not an address"), part, kShape);
  const auto& text = value.get_ref<const std::string&>();
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  bool valid = colon != std::string::npos && colon > 0;
  if (valid) {
    const auto end = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
    valid = end.ec == std::errc() && end.ptr == text.data() + text.size() && port > 0 &&
            port <= 65'535 && text.find_first_of(" \t\r\n/") == std::string::npos;
  }
  if (!valid) return wrong(str(shown(value), " is not HOST:PORT"), part);
  return text;
}

/// Reads the addresses of one type of task: a list, or an object whose keys are indices.
Result<Addresses> parse_addresses(const Json& value, const std::string& part) {
  Addresses addresses;
  if (value.is_null()) return addresses;  // an empty list of the TFJob controller
  if (value.is_array()) {
    for (uint32_t i = 0; i < value.size(); ++i) {
      DP_TRY(addresses[i], parse_address(value[i], str(part, "[", i, "]")));
    }
    return addresses;
  }
  if (!value.is_object())
    return wrong(str(shown(value), " is neither a list nor an object of addresses"), part, kShape);
  for (const auto& [key, address] : value.items()) {
    const std::string place = str(part, ".", key);
    DP_TRY(const uint32_t index, parse_index(key, place));
    DP_TRY(std::string text, parse_address(address, place));
    if (!addresses.emplace(index, std::move(text)).second)
      return wrong(str("index ", index, " is given twice"), place);
  }
  return addresses;
}

Result<TfConfig::Task> parse_task_type(const Json& task) {
  const auto type = task.find("type");
  if (type == task.end() || !type->is_string())
    return wrong("the type of this task is missing", "task.type", kShape);
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "chief" || name == "master") return TfConfig::Task::kChief;
  if (name == "ps") return TfConfig::Task::kPs;
  if (name == "worker") return TfConfig::Task::kWorker;
  if (name == "evaluator") return TfConfig::Task::kEvaluator;
  return wrong(str(shown(*type), " is not a type of task"), "task.type",
               "use chief, ps, worker or evaluator");
}

Result<uint32_t> parse_task_index(const Json& task) {
  const auto index = task.find("index");
  if (index == task.end()) return wrong("the index of this task is missing", "task.index", kShape);
  if (index->is_string()) return parse_index(index->get<std::string>(), "task.index");
  if (index->is_number_unsigned() && index->get<uint64_t>() <= kIndexMax)
    return index->get<uint32_t>();
  return wrong(str(shown(*index), " is not an index from 0 to ", kIndexMax), "task.index");
}

Result<void> check_distinct(const TfConfig& config) {
  std::map<std::string, std::string> seen;  // address -> its place
  const auto add = [&](const std::string& address, std::string part) -> Result<void> {
    const auto [at, fresh] = seen.emplace(address, std::move(part));
    if (fresh) return {};
    return wrong(str("the address ", address, " is given twice"), at->second,
                 "give each process its own address");
  };
  if (!config.chief.empty()) DP_TRY_VOID(add(config.chief, "cluster.chief"));
  for (const auto& [index, address] : config.ps)
    DP_TRY_VOID(add(address, str("cluster.ps[", index, "]")));
  for (const auto& [index, address] : config.workers)
    DP_TRY_VOID(add(address, str("cluster.worker[", index, "]")));
  return {};
}

Result<void> check_task(const TfConfig& config) {
  const bool ps = config.task == TfConfig::Task::kPs;
  if (config.task == TfConfig::Task::kChief) {
    if ((!config.chief.empty() || config.sparse) && config.index == 0) return {};
    return wrong(str("there is no chief ", config.index), "task.index",
                 "list one chief in cluster.chief, with index 0");
  }
  if (config.task == TfConfig::Task::kEvaluator) return {};
  const Addresses& listed = ps ? config.ps : config.workers;
  if (listed.contains(config.index)) return {};
  return wrong(str("index ", config.index, " is not in cluster.", ps ? "ps" : "worker",
                   ", which has ", listed.size(), listed.size() == 1 ? " address" : " addresses"),
               "task.index", "the indices of a list start at 0");
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

}  // namespace

Result<TfConfig> parse_tf_config(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string near(text.substr(at, 20));
    return wrong(str("not valid JSON at byte ", at, near.empty() ? ": the text ends there" : ": ",
                     near.empty() ? "" : str("`", near, "`")),
                 "", kShape);
  }
  TfConfig config;
  config.sparse = json.is_object() && !json.contains("cluster") && json.contains("sparseCluster");
  const std::string key = config.sparse ? "sparseCluster" : "cluster";
  if (!json.is_object() || !json.contains(key) || !json[key].is_object())
    return wrong(str("the object `", key, "` is missing"), key, kShape);
  if (!json.contains("task") || !json["task"].is_object())
    return wrong("the object `task` is missing", "task", kShape);
  for (const auto& [type, value] : json[key].items()) {
    const std::string part = str(key, ".", type);
    if (type == "evaluator") continue;
    if (type != "chief" && type != "master" && type != "ps" && type != "worker")
      return wrong(str("`", type, "` is not a type of task"), part,
                   "use chief, ps, worker or evaluator");
    DP_TRY(Addresses addresses, parse_addresses(value, part));
    if (type == "ps") {
      config.ps = std::move(addresses);
    } else if (type == "worker") {
      config.workers = std::move(addresses);
    } else if (addresses.size() > 1 || !config.chief.empty()) {
      return wrong("there is more than one chief", part, "list one chief");
    } else if (!addresses.empty()) {
      config.chief = addresses.begin()->second;
    }
  }
  DP_TRY(config.task, parse_task_type(json["task"]));
  DP_TRY(config.index, parse_task_index(json["task"]));
  if (config.sparse && config.task == TfConfig::Task::kPs && config.ps.size() == 1) {
    // A ps sees only its own address, in a list.
    config.ps = {{config.index, config.ps.begin()->second}};
  }
  DP_TRY_VOID(check_distinct(config));
  DP_TRY_VOID(check_task(config));
  return config;
}

Result<NodePlan> plan_node(const TfConfig& config, const std::string& chief_address,
                           const std::string& everywhere) {
  using Task = TfConfig::Task;
  if (!chief_address.empty()) {
    if (auto checked = parse_address(chief_address, ""); !checked) {
      Error error = std::move(checked).error();
      error.where = "DOWNPOUR_CHIEF";
      return error;
    }
  }
  NodePlan plan{.role = config.task == Task::kChief ? wire::Role::kChief
                        : config.task == Task::kPs  ? wire::Role::kPs
                                                    : wire::Role::kWorker,
                .index = config.index,
                .ps = uint32_t(config.ps.size()),
                .workers = uint32_t(config.workers.size())};
  const auto first = config.workers.find(0);
  plan.chief = !chief_address.empty()          ? chief_address
               : !config.chief.empty()         ? config.chief
               : first != config.workers.end() ? first->second
                                               : "";
  if (plan.chief.empty()) {
    return wrong("the address of the chief is not known: neither a chief nor worker 0 is listed",
                 "cluster", "set DOWNPOUR_CHIEF=HOST:PORT for every process");
  }
  const bool names_first = first != config.workers.end() && first->second == chief_address;
  plan.with_chief = config.chief.empty() && (chief_address.empty() || names_first) &&
                    config.task == Task::kWorker && config.index == 0;
  if (config.ps.empty() && !(config.sparse && config.task != Task::kWorker)) {
    if (config.task == Task::kChief && config.workers.empty())
      return wrong("the cluster has neither ps nor workers", "cluster", kShape);
    plan.ps = plan.workers;
    plan.ps_in_workers = true;
  }
  std::string own;
  if (config.task == Task::kWorker) own = config.workers.at(config.index);
  if (config.task == Task::kChief || plan.with_chief) own = plan.chief;
  if (config.task == Task::kPs) own = config.ps.at(config.index);
  const size_t colon = own.rfind(':');
  plan.host = own.substr(0, colon);
  const std::string interface = is_loopback(plan.host) ? plan.host : everywhere;
  plan.bind = interface + own.substr(colon);
  plan.ps_bind = interface + ":*";
  return plan;
}

}  // namespace downpour::tools
