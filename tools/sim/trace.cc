#include "tools/sim/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "shared/base/str.h"
#include "shared/wire/frame.h"
#include "shared/wire/names.h"

namespace downpour::sim {
namespace {

constexpr size_t kTailLines = 60;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

}  // namespace

std::optional<size_t> body_index(std::string_view name) {
  for (size_t body = 0; body < std::variant_size_v<wire::AnyBody>; ++body) {
    if (wire::kind_name(wire::Kind(body + 1)) == name) return body;
  }
  return std::nullopt;
}

std::string describe(const wire::Message& message) {
  const wire::Body& body = message.body;
  std::string text = str(wire::kind_name(wire::kind_of(body)));
  if (const auto* push = std::get_if<wire::Push>(&body)) {
    text += str(' ', push->batch, push->end ? " end" : "", " to ", push->covered.size(),
                " partitions, view ", message.envelope.view);
  } else if (const auto* reply = std::get_if<wire::PushReply>(&body)) {
    text += str(' ', reply->batch, ": ", reply->applied.size(), " applied");
    if (!reply->others.empty()) {
      const wire::PartReply& first = reply->others.front();
      text += str(", ", reply->others.size(), " not (partition ", first.partition, " ",
                  name_of(first.status), " at ", first.watermark, ")");
    }
  } else if (const auto* grant = std::get_if<wire::LeaseGrant>(&body)) {
    for (const wire::Lease& lease : grant->leases)
      text += str(' ', lease.shard, " attempt ", lease.attempt, " from ", lease.first_batch);
  } else if (const auto* progress = std::get_if<wire::ShardProgress>(&body)) {
    text += str(' ', progress->lease.shard, progress->ended ? " ended" : " at ",
                progress->ended ? "" : str(progress->batches_acked));
  } else if (const auto* revoked = std::get_if<wire::LeaseRevoked>(&body)) {
    text += str(' ', revoked->lease.shard);
  } else if (const auto* view = std::get_if<wire::View>(&body)) {
    text += str(' ', view->id);
  } else if (const auto* adopt = std::get_if<wire::Adopt>(&body)) {
    text += str(" since ", adopt->ownership_generation, ", ", adopt->partitions.size(),
                " partitions, ", adopt->images.size(), " images");
  } else if (const auto* adopted = std::get_if<wire::Adopted>(&body)) {
    text += str(" since ", adopted->ownership_generation, adopted->ok ? "" : ": ", adopted->error);
  } else if (const auto* save = std::get_if<wire::Save>(&body)) {
    text += str(' ', save->checkpoint);
  } else if (const auto* saved = std::get_if<wire::Saved>(&body)) {
    text += str(' ', saved->checkpoint, saved->ok ? "" : ": ", saved->error);
  } else if (const auto* reject = std::get_if<wire::Reject>(&body)) {
    text += str(": ", reject->what);
  } else if (const auto* refused = std::get_if<wire::Refused>(&body)) {
    text += str(": ", refused->what);
  }
  return text;
}

void Trace::add(int64_t now_ns, uint32_t process, std::string what) {
  std::string who = process == 0 ? "sim" : str('#', process);
  for (const auto& [number, name] : names_) {
    if (number == process) who = name;
  }
  std::array<char, 64> head{};
  std::snprintf(head.data(), head.size(), "%12.6f  %-12s ", double(now_ns) / 1e9, who.c_str());
  tail_.push_back(head.data() + what);
  if (tail_.size() > kTailLines) tail_.pop_front();
  if (all_) events_.push_back({now_ns, process, std::move(what)});
}

void Trace::name(uint32_t process, std::string name) {
  names_.emplace_back(process, std::move(name));
}

std::string Trace::json() const {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  out += R"({"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"sim"}})";
  for (const auto& [number, name] : names_) {
    out += str(",\n{\"ph\":\"M\",\"pid\":1,\"tid\":", number,
               ",\"name\":\"thread_name\",\"args\":{\"name\":", quoted(name), "}}");
  }
  for (const Event& event : events_) {
    std::array<char, 32> micros{};
    std::snprintf(micros.data(), micros.size(), "%.3f", double(event.at_ns) / 1e3);
    out += str(",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":", event.process,
               ",\"ts\":", micros.data(), ",\"name\":", quoted(event.what), "}");
  }
  return out + "\n]}\n";
}

}  // namespace downpour::sim
