#include "tools/cli/explain_record.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/run_setup.h"
#include "shared/checkpoint/paths.h"
#include "shared/env/storage.h"
#include "shared/model/graph.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct NamedRecord {
  std::string file;
  uint64_t n = 0;
};

std::optional<NamedRecord> parse_record(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return std::nullopt;
  NamedRecord named{text.substr(0, colon)};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, named.n);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return named;
}

// The events of one shard in one epoch, in their order.
struct ShardStory {
  std::vector<std::string> lines;
  std::vector<uint32_t> quarantined_batches;
  std::map<uint32_t, std::string> why;  // by quarantined batch
};
struct EpochStory {
  std::map<uint32_t, ShardStory> shards;
  std::optional<uint64_t> plan;  // under which its shards were leased
  bool complete = false;
  uint32_t shards_left = 0;  // shards that a partial epoch does not cover
  std::string left;          // these shards: "3-7,9-10" is [3, 7) and [9, 10); empty: too many
  std::string account;
};
struct RunStory {
  std::map<uint32_t, EpochStory> epochs;
  uint32_t sealed = 0;
  std::optional<uint64_t> plan;
  uint64_t lines_lost = 0;
};

std::string at(const Json& event, uint32_t term) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f s%s", double(event.value("ms", int64_t{0})) / 1000,
                term > 1 ? str(" of term ", term).c_str() : "");
  return text;
}

std::string who(const Json& event) {
  return event.contains("worker") ? str("worker ", event["worker"].get<uint32_t>()) : "its worker";
}

/// Returns an event of a shard as a line of text; empty if the event is not shown.
std::string shard_line(const std::string& name, const Json& e, uint32_t term) {
  const std::string attempt = str("attempt ", e.value("attempt", 0U), ": ");
  if (name == "lease") {
    const uint32_t first = e.value("first_batch", 0U);
    return str(
        attempt, who(e), first == 0 ? "" : str(" from batch ", first), ", at ", at(e, term),
        e.value("backup", false) ? " (a backup lease, because the first worker is slow)" : "");
  }
  if (name == "ended") {
    const uint32_t batches = e.value("batches", 0U);
    return str(attempt, who(e), " finished the shard at ", at(e, term), ": ", batches,
               batches == 1 ? " batch, " : " batches, ", e.value("read", uint64_t{0}),
               " records read");
  }
  if (name == "expired") return str(attempt, who(e), " was lost, at ", at(e, term));
  if (name == "revoked") return str(attempt, "revoked from ", who(e), ", at ", at(e, term));
  if (name == "shard_failed") {
    return str("failed at batch ", e.value("batch", 0U), " on ", who(e), ", at ", at(e, term), ": ",
               e.value("what", ""));
  }
  if (name == "quarantined") {
    const std::string why = e.value("why", "");
    return str("batch ", e.value("batch", 0U), " was quarantined at all partitions, at ",
               at(e, term), why.empty() ? "" : ": ", why);
  }
  if (name == "quarantine_withdrawn") {
    return str("batch ", e.value("batch", 0U),
               " was not quarantined, because a partition had already applied it,", " at ",
               at(e, term));
  }
  return {};
}

std::string account_of(const Json& e) {
  const auto n = [&](const char* name) { return e.value(name, uint64_t{0}); };
  return str("read ", n("read"), " = applied ", n("applied"), " + filtered ", n("filtered"),
             " + skipped ", n("skipped"), " + dropped ", n("dropped"), " + quarantined ",
             n("quarantined"));
}

void take_event(const Json& e, uint32_t& term, RunStory& story) {
  const std::string name = e.value("event", "");
  if (name == "start") {
    term = e.value("term", 0U);
    story.plan = e.value("plan", uint64_t{0});
    story.sealed = std::max(story.sealed, e.value("sealed_epochs", 0U));
  } else if (name == "published") {
    story.sealed = std::max(story.sealed, e.value("sealed_epochs", 0U));
  } else if (name == "events_lost") {
    story.lines_lost += e.value("lines", uint64_t{0});
  }
  if (!e.contains("epoch")) return;
  EpochStory& epoch = story.epochs[e.value("epoch", 0U)];
  if (name == "epoch") epoch.complete = false;  // a later run continues its training
  if (name == "complete") {
    epoch.complete = true;
    epoch.shards_left = e.value("shards_left", 0U);
    epoch.left = e.value("left", "");
    epoch.account = account_of(e);
  }
  if (!e.contains("shard") || e.value("purpose", "train") != "train") return;
  epoch.plan = story.plan;
  ShardStory& shard = epoch.shards[e.value("shard", 0U)];
  if (std::string line = shard_line(name, e, term); !line.empty()) shard.lines.push_back(line);
  if (name == "quarantined") {
    shard.quarantined_batches.push_back(e.value("batch", 0U));
    shard.why[shard.quarantined_batches.back()] = e.value("why", "");
  }
}

Result<RunStory> read_events(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return Error{ErrorCode::kNoInput, "the run has no event file", path,
                 "`explain` reports only what events.jsonl contains"};
  }
  RunStory story;
  uint32_t term = 0;
  uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;  // a chief died while writing it
    try {
      take_event(event, term, story);
    } catch (const Json::exception& wrong) {
      return Error{ErrorCode::kBadData, str("the event is damaged: ", wrong.what()),
                   str(path, ":", number), "remove the line, or restore the file from a backup"};
    }
  }
  for (auto& [epoch_number, epoch] : story.epochs) {
    for (auto& [place, shard] : epoch.shards) {
      std::set<uint32_t> ascending(shard.quarantined_batches.begin(),
                                   shard.quarantined_batches.end());
      shard.quarantined_batches.assign(ascending.begin(), ascending.end());
    }
  }
  return story;
}

// ---- the run and the file

Result<std::string> run_folder(const std::string& named) {
  std::error_code ignored;
  if (fs::is_directory(named, ignored))
    return fs::absolute(named, ignored).lexically_normal().string();
  if (!named.ends_with(".toml")) {
    return Error{ErrorCode::kNoInput, "the run folder does not exist", named,
                 "give the run folder that training printed, or the job file", ""};
  }
  DP_TRY(const auto given, chief::load_given_job(named, chief::environment_overrides()));
  return given.loaded.job.run_dir;
}

std::string canonical(const std::string& path) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  return real.empty() ? path : real.string();
}

struct Run {
  std::string folder;
  chief::RunPlan plan;
};

Result<Run> open(const std::string& folder) {
  PosixStorage storage;
  DP_TRY(Job job, chief::saved_job(storage, folder).context("run ", folder));
  job.run_dir = folder;
  DP_TRY(chief::RunPlan plan, chief::plan_run(job, wire::Purpose::kTrain));
  return Run{folder, std::move(plan)};
}

/// Returns the index of a file in a list. The name without a folder is enough if it is unique.
std::optional<uint32_t> find_file(const std::vector<plan::FileInfo>& files,
                                  const std::string& named) {
  const std::string path = canonical(named);
  std::optional<uint32_t> by_name;
  bool one = true;
  for (uint32_t i = 0; i < files.size(); ++i) {
    if (canonical(files[i].path) == path) return i;
    if (fs::path(files[i].path).filename() != named) continue;
    one = one && !by_name;
    by_name = i;
  }
  return one ? by_name : std::nullopt;
}

std::string names_of(const std::vector<plan::FileInfo>& files) {
  constexpr size_t kShownMax = 5;
  std::string text;
  for (size_t i = 0; i < std::min(files.size(), kShownMax); ++i)
    text += str(i == 0 ? "" : ", ", files[i].path);
  return files.size() > kShownMax ? str(text, ", and ", files.size() - kShownMax, " more") : text;
}

/// Returns the run that the user has named, or the only run below ./runs that reads the file.
Result<Run> find_run(const ExplainRecordRequest& request, const std::string& file) {
  if (!request.run.empty()) {
    DP_TRY(const std::string folder, run_folder(request.run));
    return open(folder);
  }
  std::vector<Run> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("runs", ignored)) {
    if (!fs::exists(checkpoint::run_path(entry.path().string()), ignored)) continue;
    auto run = open(canonical(entry.path().string()));
    if (!run) continue;
    if (find_file(run->plan.train_files, file) || find_file(run->plan.eval_files, file))
      found.push_back(std::move(*run));
  }
  if (found.size() == 1) return std::move(found.front());
  std::string folders;
  for (const Run& run : found) folders += str(folders.empty() ? "" : ", ", run.folder);
  return Error{ErrorCode::kNoInput,
               found.empty() ? "no run below ./runs reads this file"
                             : str("several runs read this file: ", folders),
               file, "select the run: --run FOLDER"};
}

// ---- the output

std::string fate_text(const Result<data::RecordFate>& fate, const ShardStory* shard) {
  using Kind = data::RecordFate::Kind;
  if (!fate) return str("its batch is unknown: ", fate.error().what);
  switch (fate->kind) {
    case Kind::kHeldOut:
      return "held out for evaluation, so not used for training";
    case Kind::kFiltered:
      return "filtered: the job's filter leaves it out";
    case Kind::kSkipped:
      return "skipped: a bad record";
    case Kind::kDropped:
      return "dropped: it belongs to the incomplete last batch of the shard";
    case Kind::kQuarantined: {
      std::string text = str("batch ", fate->batch, ", quarantined");
      const auto why = shard == nullptr ? std::map<uint32_t, std::string>::const_iterator{}
                                        : shard->why.find(fate->batch);
      if (shard != nullptr && why != shard->why.end() && !why->second.empty())
        text += str(": ", why->second);
      return text;
    }
    case Kind::kBatch:
      return str("batch ", fate->batch);
  }
  return {};
}

/// Returns whether all partitions are known to hold the whole shard.
bool is_whole(const EpochStory& epoch, uint32_t shard) {
  if (!epoch.complete || epoch.shards_left == 0) return epoch.complete;
  std::istringstream left(epoch.left);
  for (uint32_t begin = 0, end = 0; left >> begin && left.ignore() && left >> end; left.ignore())
    if (shard >= begin && shard < end) return false;
  return !epoch.left.empty();
}

plan::ShardMap shards_of(const chief::RunPlan& plan) {
  return data::map_shards(plan.job, plan.train_files,
                          plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
}

/// Describes what happened to a record in the shard of a range. Returns an empty string if the
/// shard does not contain it: it belongs to another stream, is not chosen, or is in another piece
/// of a stream.
std::string shard_text(const Run& run, const std::shared_ptr<const data::ReadPlan>& reading,
                       uint32_t epoch, uint32_t range_index, uint64_t offset,
                       const RunStory& story) {
  const plan::ShardMap shards = shards_of(run.plan);
  const bool open = shards.open_piece() > 0;  // stream of unknown length; its pieces are in order
  const uint32_t place = open ? range_index : shards.place_of(epoch, range_index);
  const uint32_t file = shards.ranges()[open ? 0 : range_index].file;
  if (place == shards.count())
    return str("\nepoch ", epoch + 1,
               ": not read, because the mix of sources ended before this record\n");
  const EpochStory& told = story.epochs.at(epoch);
  const auto found = told.shards.find(place);
  const ShardStory* shard = found == told.shards.end() ? nullptr : &found->second;
  const data::Split part = run.plan.job.eval.holdout > 0 ? data::Split::kTrain : data::Split::kAll;
  const auto fate = data::trace_record(
      reading, part, {epoch, place}, shards.at(epoch, place),
      shard == nullptr ? std::vector<uint32_t>{} : shard->quarantined_batches, file, offset);
  if (!fate &&
      (fate.error().code == ErrorCode::kNoInput || run.plan.train_files[file].is_streamed()))
    return {};
  std::string text = str("\nepoch ", epoch + 1, ": shard ", place, ", ", fate_text(fate, shard));
  const bool trained = fate && fate->kind == data::RecordFate::Kind::kBatch;
  if (trained && is_whole(told, place)) text += ", applied once at every partition";
  text += "\n";
  if (shard == nullptr || shard->lines.empty()) text += "  its shard was not leased\n";
  for (size_t i = 0; shard != nullptr && i < shard->lines.size(); ++i)
    text += str("  ", shard->lines[i], "\n");
  return text;
}

std::string epoch_text(const Run& run, const std::shared_ptr<const data::ReadPlan>& reading,
                       uint32_t epoch, const std::vector<uint32_t>& ranges, uint64_t offset,
                       const RunStory& story) {
  const EpochStory& told = story.epochs.at(epoch);
  std::string text;
  const bool in_pieces = run.plan.train_files.front().is_streamed();  // one piece has the record
  const bool other_plan = told.plan && told.plan != run.plan.plan_hash;
  if (other_plan) {
    text = str("\nepoch ", epoch + 1,
               ": trained with another job or other data, so its shard and batch are not known\n");
  }
  for (const uint32_t range : ranges) {
    if (other_plan) break;
    text += shard_text(run, reading, epoch, range, offset, story);
    if (in_pieces && !text.empty()) break;
  }
  if (text.empty() && in_pieces && run.plan.job.data.source.takes_all()) {
    text = str("\nepoch ", epoch + 1,
               ": its batch is unknown, because the file can't be read up to this record\n");
  } else if (text.empty()) {
    text = str("\nepoch ", epoch + 1,
               ": not read, because data.source does not select this record (skip, take, shard)\n");
  }
  if (told.complete && told.shards_left > 0) {
    text +=
        str("  the job ended in this epoch, ", told.shards_left,
            told.shards_left == 1 ? " shard not read: " : " shards not read: ", told.account, "\n");
  } else if (told.complete) {
    text += str("  the epoch is complete: ", told.account,
                epoch < story.sealed ? "; saved in a checkpoint\n" : "; not yet in a checkpoint\n");
  } else {
    text += "  the epoch is not complete\n";
  }
  return text;
}

Result<std::string> explain_in(const Run& run, const NamedRecord& named, data::RecordUnit unit) {
  const chief::RunPlan& plan = run.plan;
  const auto file = find_file(plan.train_files, named.file);
  if (!file) {
    if (find_file(plan.eval_files, named.file)) {
      return str(named.file, " is evaluation data of the run ", run.folder,
                 ": each evaluation reads every record once, and training uses none\n");
    }
    return Error{ErrorCode::kNoInput, "the run does not read this file", named.file,
                 str("it reads ", names_of(plan.train_files))};
  }
  DP_TRY(const RunStory story, read_events(str(run.folder, "/events.jsonl")));
  if (story.plan && *story.plan != plan.plan_hash) {
    return Error{ErrorCode::kConfig, "the data or the job have changed since the run",
                 plan.train_files[*file].path,
                 "restore the files and the job of the run: the batch of a record depends on both"};
  }
  DP_TRY(const auto graph, model::Graph::build(plan.job));
  const auto reading =
      data::make_read_plan(plan.job, graph->inputs(), graph->output_widths(), plan.job.data.source,
                           plan.train_files, plan.job.eval.holdout);
  DP_TRY(const data::RecordPlace place, data::find_record(reading, *file, named.n, unit));
  const plan::ShardMap shards = shards_of(plan);
  const std::vector<plan::ShardRange>& all = shards.ranges();
  std::vector<uint32_t> ranges;  // more than one if streams share a file
  for (uint32_t range = 0; range < all.size(); ++range) {
    const bool whole = !plan.train_files[*file].splittable;
    const bool inside = place.offset >= all[range].begin && place.offset < all[range].end;
    // A repeated source contains the file several times.
    const bool same = plan.train_files[all[range].file].path == plan.train_files[*file].path;
    if (same && (whole || inside)) ranges.push_back(range);
  }
  if (shards.open_piece() > 0) {  // search all pieces that the run has leased
    uint32_t pieces = 1;
    for (const auto& [epoch, told] : story.epochs) {
      if (!told.shards.empty()) pieces = std::max(pieces, told.shards.rbegin()->first + 1);
    }
    ranges.resize(pieces);
    std::iota(ranges.begin(), ranges.end(), 0);
  }
  if (ranges.empty() && !plan.train_files[*file].leaves_out()) {
    return Error{ErrorCode::kBug, str("byte ", place.offset, " is not in any shard"), named.file};
  }
  std::string text = str(place.where, ": record ", place.number, ", bytes [", place.offset, ", ",
                         place.offset + place.bytes, ")\nrun ", run.folder, "\n");
  if (story.epochs.empty()) text += "\nno epoch has begun\n";
  for (const auto& [epoch, told] : story.epochs) {
    (void)told;
    text += epoch_text(run, reading, epoch, ranges, place.offset, story);
  }
  if (story.lines_lost > 0) {
    text += str("\n", story.lines_lost, " events are missing, because they could not be written\n");
  }
  return text;
}

}  // namespace

bool names_record(const std::string& text) { return parse_record(text).has_value(); }

Result<std::string> explain_record(const ExplainRecordRequest& request) {
  const auto named = parse_record(request.record);
  if (!named || (named->n == 0 && request.unit != data::RecordUnit::kByte)) {
    return Error{ErrorCode::kUsage,
                 str("`", request.record, "` is not a valid record"),
                 {},
                 "write FILE:RECORD; records (and lines, with --line) are numbered from 1",
                 "DP-1000"};
  }
  DP_TRY(const Run run, find_run(request, named->file));
  return explain_in(run, *named, request.unit);
}

}  // namespace downpour::tools
