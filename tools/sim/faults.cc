#include "tools/sim/faults.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/rng.h"
#include "tools/sim/trace.h"

namespace downpour::sim {
namespace {

enum class Nature : uint8_t { kRate, kMoment, kWholeRun };

struct Kind {
  std::string_view name;
  Nature nature;
  bool chaos = true;
};

// In order of FaultKind.
constexpr std::array<Kind, kFaultKinds> kKinds = {{
    {"drop", Nature::kRate},
    {"duplicate", Nature::kRate},
    {"delay", Nature::kRate},
    {"kill-worker", Nature::kMoment},
    {"kill-ps", Nature::kMoment},
    {"kill-chief", Nature::kMoment},
    {"pause-worker", Nature::kMoment},
    {"pause-ps", Nature::kMoment},
    {"pause-chief", Nature::kMoment},
    {"zombie-worker", Nature::kMoment},
    {"zombie-ps", Nature::kMoment},
    {"zombie-chief", Nature::kMoment},
    {"partition", Nature::kMoment},
    {"one-way", Nature::kMoment},
    {"clog", Nature::kMoment},
    {"reset", Nature::kMoment},
    {"clock", Nature::kMoment},
    {"straggler", Nature::kMoment},
    {"slow-disk", Nature::kMoment},
    {"full-disk", Nature::kMoment},
    {"fsync", Nature::kMoment},
    {"kill-in-write", Nature::kMoment},
    {"kill-in-phase", Nature::kMoment},
    {"power", Nature::kMoment},
    {"join-ps", Nature::kMoment},
    {"flip", Nature::kMoment},
    {"lose-worker", Nature::kMoment},
    {"deaf", Nature::kMoment},
    {"flap", Nature::kMoment},
    {"slow-ps", Nature::kMoment},
    {"tiny-queues", Nature::kWholeRun},
    {"early-timeouts", Nature::kWholeRun},
    {"lost-lease", Nature::kWholeRun},
    {"lost-view", Nature::kWholeRun},
    {"late-manifest", Nature::kWholeRun},
    {"poison", Nature::kWholeRun},
    {"kill-input", Nature::kMoment},
    {"pause-input", Nature::kMoment},
    {"zombie-input", Nature::kMoment},
    {"slow-input", Nature::kMoment},
    {"late-mail", Nature::kWholeRun},
    {"damage", Nature::kMoment, false},
    {"read-error", Nature::kMoment, false},
    {"change-data", Nature::kMoment, false},
    {"unreplayable", Nature::kWholeRun, false},
    {"lying-fsync", Nature::kWholeRun, false},
    {"slow-tasks", Nature::kWholeRun, false},
    {"foreign", Nature::kWholeRun, false},
    {"stale-names", Nature::kWholeRun, false},
    {"small-limits", Nature::kWholeRun, false},
    {"extend-run", Nature::kWholeRun, false},
    {"flaky", Nature::kWholeRun, false},
}};

struct PointAction {
  std::string_view name;
  FaultPoint::Action action;
};
constexpr std::array kPointActions = {
    PointAction{"lose", FaultPoint::Action::kLose},
    PointAction{"kill-sender", FaultPoint::Action::kKillSender},
    PointAction{"kill-receiver", FaultPoint::Action::kKillReceiver},
    PointAction{"repeat", FaultPoint::Action::kRepeat},
    PointAction{"pause", FaultPoint::Action::kPause},
    PointAction{"stall", FaultPoint::Action::kStall},
};

constexpr int64_t kHorizonNs = 3600 * kSecond * 24;  // limit on the time of periodic events
constexpr size_t kEventsMax = 20'000;

// Parses "250ms", "10s", "10m" or "2h".
std::optional<int64_t> parse_duration(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  const double ns = unit == "ms"  ? 1e6
                    : unit == "s" ? 1e9
                    : unit == "m" ? 60e9
                    : unit == "h" ? 3600e9
                                  : 0;
  if (ns == 0 || value * ns > 1e17) return std::nullopt;
  return int64_t(value * ns);
}

// Parses "1%" or "0.01".
std::optional<double> parse_rate(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, size_t(text.data() + text.size() - end));
  if (error != std::errc() || (rest != "%" && !rest.empty())) return std::nullopt;
  if (rest == "%") value /= 100;
  if (value < 0 || value > 1) return std::nullopt;
  return value;
}

// Parses "worker.View:lose=90%".
Result<FaultPoint> parse_point(std::string_view item) {
  const auto wrong = [&] {
    return Error{ErrorCode::kUsage, str("--faults: `", item, "` is not valid"), "",
                 "for example worker.View:lose=90%, StatusReply:kill-sender=10%, "
                 "Save:kill-receiver=5%, ps.Freeze:repeat=20%, worker.LeaseGrant:pause=2%, "
                 "chief.StatusReply:stall=10%",
                 ""};
  };
  FaultPoint point;
  const size_t colon = item.find(':'), equals = item.find('=', colon);
  std::string_view body = item.substr(0, colon);
  if (const size_t dot = body.find('.'); dot != std::string_view::npos) {
    const std::string_view role = body.substr(0, dot);
    point.to = role == "chief"   ? wire::Role::kChief
               : role == "ps"    ? wire::Role::kPs
               : role == "input" ? wire::Role::kInput
                                 : wire::Role::kWorker;
    if (*point.to == wire::Role::kWorker && role != "worker") return wrong();
    body.remove_prefix(dot + 1);
  }
  const auto index = body_index(body);
  const auto* const action = std::ranges::find(
      kPointActions, item.substr(colon + 1, equals - colon - 1), &PointAction::name);
  const auto chance =
      equals == std::string_view::npos ? std::nullopt : parse_rate(item.substr(equals + 1));
  if (!index || action == kPointActions.end() || !chance) return wrong();
  point.body = *index;
  point.action = action->action;
  point.chance = *chance;
  return point;
}

Result<void> add_item(std::string_view item, FaultSpec& spec) {
  if (item.find(':') != std::string_view::npos) {
    DP_TRY(const FaultPoint point, parse_point(item));
    spec.points.push_back(point);
    return {};
  }
  const size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  const auto kind = parse_fault(name);
  if (!kind) {
    std::string all;
    for (const Kind& known : kKinds) all += (all.empty() ? "" : ", ") + std::string(known.name);
    return Error{ErrorCode::kUsage, str("--faults: there is no `", name, "`"), "",
                 str("use none, light, chaos, or a list of: ", all), ""};
  }
  FaultSpec::Setting setting;
  if (is_rate(*kind)) setting.rate = 0.01;
  if (equals != std::string_view::npos) {
    const std::string_view value = item.substr(equals + 1);
    const auto rate = is_rate(*kind) ? parse_rate(value) : std::nullopt;
    const auto period = is_moment(*kind) ? parse_duration(value) : std::nullopt;
    if (!rate && !period) {
      return Error{ErrorCode::kUsage, str("--faults: `", item, "` is not valid"), "",
                   "for example drop=1%, kill-ps=10m, power=30s, tiny-queues", ""};
    }
    setting.rate = rate.value_or(0);
    setting.period_ns = period.value_or(0);
  }
  spec.kinds[*kind] = setting;
  return {};
}

}  // namespace

std::string_view fault_name(FaultKind kind) { return kKinds[size_t(kind)].name; }

std::optional<FaultKind> parse_fault(std::string_view name) {
  const auto* at = std::find_if(kKinds.begin(), kKinds.end(),
                                [&](const Kind& known) { return known.name == name; });
  if (at == kKinds.end()) return std::nullopt;
  return FaultKind(at - kKinds.begin());
}

bool is_rate(FaultKind kind) { return kKinds[size_t(kind)].nature == Nature::kRate; }
bool is_moment(FaultKind kind) { return kKinds[size_t(kind)].nature == Nature::kMoment; }
bool in_chaos(FaultKind kind) { return kKinds[size_t(kind)].chaos; }

void leave_out_inputs(FaultSpec& spec) {
  for (const FaultKind kind : {FaultKind::kKillInput, FaultKind::kPauseInput,
                               FaultKind::kZombieInput, FaultKind::kSlowInput})
    spec.kinds.erase(kind);
}

Result<FaultSpec> parse_faults(std::string_view text) {
  FaultSpec spec;
  if (text.empty() || text == "none") return spec;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (item == "chaos") {
      spec.swarm = true;
      for (size_t k = 0; k < kFaultKinds; ++k) {
        if (in_chaos(FaultKind(k))) spec.kinds.insert({FaultKind(k), {.always = false}});
      }
    } else if (item == "ends") {
      spec.ends = true;
    } else if (item == "light") {
      for (const std::string_view part : {"drop=0.1%", "duplicate=0.1%", "delay=0.5%", "reset=30s",
                                          "kill-worker=60s", "pause-worker=60s", "kill-ps=3m"})
        DP_TRY_VOID(add_item(part, spec));
    } else {
      DP_TRY_VOID(add_item(item, spec));
    }
  }
  return spec;
}

int64_t draw_duration(FaultKind kind, Rng& rng) {
  const auto up_to = [&](int64_t ns) { return int64_t(rng.below(uint64_t(ns))); };
  switch (kind) {
    case FaultKind::kPauseWorker:
    case FaultKind::kPausePs:
    case FaultKind::kPauseChief:
    case FaultKind::kZombieWorker:
    case FaultKind::kZombiePs:
    case FaultKind::kZombieChief:
    case FaultKind::kPauseInput:
    case FaultKind::kZombieInput:
      return 100 * kMillisecond + up_to(rng.below(3) == 0 ? 12 * kSecond : 2 * kSecond);
    case FaultKind::kPartition:
    case FaultKind::kOneWay:
    case FaultKind::kClog:
    case FaultKind::kDeaf:
    case FaultKind::kFlap:
      return 50 * kMillisecond + up_to(rng.below(3) == 0 ? 12 * kSecond : 2 * kSecond);
    case FaultKind::kSlowDisk:
    case FaultKind::kFullDisk:
    case FaultKind::kFsync:
    case FaultKind::kReadError:
      return 200 * kMillisecond + up_to(4 * kSecond);
    case FaultKind::kChangeData:
      return 2 * kSecond + up_to(6 * kSecond);
    case FaultKind::kClock:
      return up_to(20 * kSecond);
    default:  // time until a killed process is replaced
      return rng.below(4) == 0 ? up_to(8 * kSecond) : up_to(kSecond);
  }
}

FaultPlan make_plan(const FaultSpec& spec, uint64_t seed) {
  FaultPlan plan;
  if (spec.empty()) return plan;
  plan.points = spec.points;
  Rng rng(hash_combine(seed, 0xfa0175));
  const int64_t until_ns = kSecond + int64_t(rng.below(uint64_t(8 * kSecond)));
  bool for_ever = false;
  for (const auto& [kind, setting] : spec.kinds) {
    Rng own(hash_combine(seed, 1000 + uint64_t(kind)));  // kinds do not affect each other's draws
    const bool whole_run = !is_rate(kind) && !is_moment(kind);
    const bool on = setting.always || own.below(whole_run ? 4 : 2) == 0;
    if (!on) continue;
    plan.on[size_t(kind)] = true;
    if (is_rate(kind)) {
      const double rate = setting.always ? setting.rate : 0.0005 * std::pow(100.0, own.uniform64());
      (kind == FaultKind::kDrop        ? plan.drop
       : kind == FaultKind::kDuplicate ? plan.duplicate
                                       : plan.delay) = rate;
      for_ever = for_ever || (setting.always && !spec.swarm);
    } else if (is_moment(kind)) {
      for_ever = for_ever || setting.period_ns > 0;
      const uint64_t few = 1 + own.below(3);
      int64_t at = 0;
      for (uint64_t n = 0; plan.events.size() < kEventsMax; ++n) {
        if (setting.period_ns > 0) {
          at += int64_t(double(setting.period_ns) * -std::log(1.0 - own.uniform64()));
          if (at > (spec.ends ? until_ns : kHorizonNs)) break;
        } else {
          if (n == few) break;
          at = int64_t(own.below(uint64_t(until_ns)));
        }
        const uint64_t pick = own.next();
        plan.events.push_back({at, kind, pick, draw_duration(kind, own)});
      }
    }
  }
  std::stable_sort(plan.events.begin(), plan.events.end(),
                   [](const FaultEvent& a, const FaultEvent& b) { return a.at_ns < b.at_ns; });
  plan.heal_ns = for_ever && !spec.ends ? INT64_MAX : until_ns + 2 * kSecond;
  return plan;
}

FaultPlan reduced(const FaultPlan& plan, const std::vector<FaultKind>& without,
                  const std::optional<std::vector<uint32_t>>& moments) {
  FaultPlan out = plan;
  const auto gone = [&](FaultKind kind) {
    return std::find(without.begin(), without.end(), kind) != without.end();
  };
  for (const FaultKind kind : without) out.on[size_t(kind)] = false;
  if (gone(FaultKind::kDrop)) out.drop = 0;
  if (gone(FaultKind::kDuplicate)) out.duplicate = 0;
  if (gone(FaultKind::kDelay)) out.delay = 0;
  out.events.clear();
  for (uint32_t i = 0; i < plan.events.size(); ++i) {
    const bool listed =
        !moments || std::find(moments->begin(), moments->end(), i) != moments->end();
    if (listed && !gone(plan.events[i].kind)) out.events.push_back(plan.events[i]);
  }
  return out;
}

}  // namespace downpour::sim
