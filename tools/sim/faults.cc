#include "tools/sim/faults.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/rng.h"
#include "tools/sim/trace.h"

namespace downpour::sim {
namespace {

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "drop",        "duplicate",      "delay",         "kill-worker", "kill-ps",
    "kill-chief",  "pause-worker",   "pause-ps",      "pause-chief", "zombie-worker",
    "zombie-ps",   "zombie-chief",   "partition",     "one-way",     "clog",
    "reset",       "clock",          "straggler",     "slow-disk",   "full-disk",
    "fsync",       "kill-in-write",  "kill-in-phase", "power",       "join-ps",
    "flip",        "lose-worker",    "deaf",          "flap",        "slow-ps",
    "tiny-queues", "early-timeouts", "lost-lease",    "lost-view",   "late-manifest",
    "poison"};

constexpr int64_t kHorizonNs = 3600 * kSecond * 24;  // a period's events are drawn for so long
constexpr size_t kEventsMax = 20'000;

// "250ms", "10s", "10m", "2h".
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

// "1%", "0.01".
std::optional<double> parse_rate(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, size_t(text.data() + text.size() - end));
  if (error != std::errc() || (rest != "%" && !rest.empty())) return std::nullopt;
  if (rest == "%") value /= 100;
  if (value < 0 || value > 1) return std::nullopt;
  return value;
}

// "worker.View:lose=90%".
Result<FaultPoint> parse_point(std::string_view item) {
  const auto wrong = [&] {
    return Error{ErrorCode::kUsage, str("--faults: `", item, "` is not understood"), "",
                 "for example worker.View:lose=90%, StatusReply:kill-sender=10%, "
                 "Save:kill-receiver=5%",
                 ""};
  };
  FaultPoint point;
  const size_t colon = item.find(':'), equals = item.find('=', colon);
  std::string_view body = item.substr(0, colon);
  if (const size_t dot = body.find('.'); dot != std::string_view::npos) {
    const std::string_view role = body.substr(0, dot);
    point.to = role == "chief" ? wire::Role::kChief
               : role == "ps"  ? wire::Role::kPs
                               : wire::Role::kWorker;
    if (*point.to == wire::Role::kWorker && role != "worker") return wrong();
    body.remove_prefix(dot + 1);
  }
  const auto index = body_index(body);
  const std::string_view action = item.substr(colon + 1, equals - colon - 1);
  const auto chance =
      equals == std::string_view::npos ? std::nullopt : parse_rate(item.substr(equals + 1));
  using Action = FaultPoint::Action;
  const bool known = action == "lose" || action == "kill-sender" || action == "kill-receiver";
  if (!index || !known || !chance) return wrong();
  point.body = *index;
  point.action = action == "lose"          ? Action::kLose
                 : action == "kill-sender" ? Action::kKillSender
                                           : Action::kKillReceiver;
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
    for (const std::string_view known : kNames)
      all += (all.empty() ? "" : ", ") + std::string(known);
    return Error{ErrorCode::kUsage, str("--faults: there is no `", name, "`"), "",
                 str("none, light, chaos, or some of: ", all), ""};
  }
  FaultSpec::Setting setting;
  if (is_rate(*kind)) setting.rate = 0.01;
  if (equals != std::string_view::npos) {
    const std::string_view value = item.substr(equals + 1);
    const auto rate = is_rate(*kind) ? parse_rate(value) : std::nullopt;
    const auto period = is_moment(*kind) ? parse_duration(value) : std::nullopt;
    if (!rate && !period) {
      return Error{ErrorCode::kUsage, str("--faults: `", item, "` is not understood"), "",
                   "for example drop=1%, kill-ps=10m, power=30s, tiny-queues", ""};
    }
    setting.rate = rate.value_or(0);
    setting.period_ns = period.value_or(0);
  }
  spec.kinds[*kind] = setting;
  return {};
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
      return 200 * kMillisecond + up_to(4 * kSecond);
    case FaultKind::kClock:
      return up_to(20 * kSecond);
    default:  // until a killed process comes back
      return rng.below(4) == 0 ? up_to(8 * kSecond) : up_to(kSecond);
  }
}

}  // namespace

std::string_view fault_name(FaultKind kind) { return kNames[size_t(kind)]; }

std::optional<FaultKind> parse_fault(std::string_view name) {
  const auto* at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return FaultKind(at - kNames.begin());
}

bool is_rate(FaultKind kind) { return kind <= FaultKind::kDelay; }
bool is_moment(FaultKind kind) { return !is_rate(kind) && kind < FaultKind::kTinyQueues; }

Result<FaultSpec> parse_faults(std::string_view text) {
  FaultSpec spec;
  if (text.empty() || text == "none") return spec;
  if (text == "chaos") {
    spec.swarm = true;
    for (size_t k = 0; k < kFaultKinds; ++k) spec.kinds[FaultKind(k)] = {};
    return spec;
  }
  if (text == "light")
    text =
        "drop=0.1%,duplicate=0.1%,delay=0.5%,reset=30s,kill-worker=60s,pause-worker=60s,kill-ps=3m";
  while (!text.empty()) {
    const size_t comma = text.find(',');
    DP_TRY_VOID(add_item(text.substr(0, comma), spec));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return spec;
}

FaultPlan make_plan(const FaultSpec& spec, uint64_t seed) {
  FaultPlan plan;
  if (spec.empty()) return plan;
  plan.points = spec.points;
  Rng rng(hash_combine(seed, 0xfa0175));
  const int64_t until_ns = kSecond + int64_t(rng.below(uint64_t(8 * kSecond)));
  bool for_ever = false;
  for (const auto& [kind, setting] : spec.kinds) {
    Rng own(hash_combine(seed, 1000 + uint64_t(kind)));  // so that kinds do not disturb each other
    const bool whole_run = !is_rate(kind) && !is_moment(kind);
    const bool on = !spec.swarm || own.below(whole_run ? 4 : 2) == 0;
    if (!on) continue;
    plan.on[size_t(kind)] = true;
    if (is_rate(kind)) {
      const double rate = spec.swarm ? 0.0005 * std::pow(100.0, own.uniform64()) : setting.rate;
      (kind == FaultKind::kDrop        ? plan.drop
       : kind == FaultKind::kDuplicate ? plan.duplicate
                                       : plan.delay) = rate;
      for_ever = for_ever || !spec.swarm;
    } else if (is_moment(kind)) {
      for_ever = for_ever || setting.period_ns > 0;
      const uint64_t few = 1 + own.below(3);
      int64_t at = 0;
      for (uint64_t n = 0; plan.events.size() < kEventsMax; ++n) {
        if (setting.period_ns > 0) {
          at += int64_t(double(setting.period_ns) * -std::log(1.0 - own.uniform64()));
          if (at > kHorizonNs) break;
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
  plan.heal_ns = for_ever ? INT64_MAX : until_ns + 2 * kSecond;
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
