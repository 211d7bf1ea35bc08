#include "tests/fuzz/reading.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "shared/base/hash.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/job_file.h"
#include "shared/job/preset.h"

namespace downpour::fuzz {
namespace {

using data::ReadPlan;
using data::Split;
using plan::FileInfo;
using plan::ShardRange;

constexpr uint32_t kReadsOfScratch = 64;  // then a new pool releases the memory of the old one

/// Result of reading one range, as sums that do not depend on the order of its records.
struct Sums {
  ReadCounts counts;
  uint64_t records = 0;
  uint64_t content = 0;       // sum of the hashes of the parsed values
  uint64_t records_hash = 0;  // sum of the hashes of the record bytes
  bool operator==(const Sums&) const = default;
  void add(const Sums& other) {
    counts.read += other.counts.read;
    counts.filtered += other.counts.filtered;
    counts.skipped += other.counts.skipped;
    counts.dropped += other.counts.dropped;
    records += other.records;
    content += other.content;
    records_hash += other.records_hash;
  }
  std::string text() const {
    return str(counts.read, " read, ", counts.filtered, " filtered, ", counts.skipped, " skipped, ",
               records, " good, content ", content, ", hash ", records_hash);
  }
};

struct Ended {
  Sums sums;
  uint64_t first_offset = 0, end_offset = 0;
  std::string fault;           // defect of the reader
  std::optional<Error> error;  // error for the user
  bool good() const { return !error && fault.empty(); }
};

std::string check_columns(const Batch& batch, const InputLayout& layout) {
  if (batch.floats.size() != layout.floats.size() || batch.bags.size() != layout.bags.size())
    return "a batch lacks columns";
  for (const FloatColumn& column : batch.floats) {
    if (column.values.size() != size_t(batch.records) * column.width)
      return str("a column of ", column.values.size(), " floats for ", batch.records, " records");
    if (!std::all_of(column.values.begin(), column.values.end(),
                     [](float x) { return std::isfinite(x); }))
      return "a number that is not finite was let through";
  }
  for (const BagColumn& bag : batch.bags) {
    if (bag.offsets.empty() ? bag.keys.size() != batch.records
                            : bag.offsets.size() != batch.records + 1 || bag.offsets.front() != 0 ||
                                  bag.offsets.back() != bag.keys.size() ||
                                  !std::is_sorted(bag.offsets.begin(), bag.offsets.end()))
      return "a bag whose offsets and keys do not fit";
    if (!bag.values.empty() && bag.values.size() != bag.keys.size())
      return "a bag with fewer values than keys";
    if (!std::all_of(bag.values.begin(), bag.values.end(),
                     [](float x) { return std::isfinite(x); }))
      return "a value that is not finite was let through";
    const size_t unique = batch.tables[bag.table_index].keys.size();
    if (std::any_of(bag.keys.begin(), bag.keys.end(), [&](uint32_t k) { return k >= unique; }))
      return "a key that is not in its table";
  }
  return "";
}

uint64_t content_of(const Batch& batch, uint32_t record) {
  uint64_t hash = 1;
  for (const FloatColumn& column : batch.floats) {
    for (uint32_t i = 0; i < column.width; ++i)
      hash = hash_combine(
          hash, std::bit_cast<uint32_t>(column.values[size_t(record) * column.width + i]));
  }
  for (const BagColumn& bag : batch.bags) {
    const uint32_t begin = bag.offsets.empty() ? record : bag.offsets[record];
    const uint32_t end = bag.offsets.empty() ? record + 1 : bag.offsets[record + 1];
    hash = hash_combine(hash, end - begin);
    for (uint32_t i = begin; i < end; ++i) {
      hash = hash_combine(hash, batch.tables[bag.table_index].keys[bag.keys[i]]);
      hash = hash_combine(hash, std::bit_cast<uint32_t>(bag.values.empty() ? 1.0F : bag.values[i]));
    }
  }
  return hash;
}

Ended read_range(const std::shared_ptr<const ReadPlan>& plan, const ShardRange& range,
                 Split part = Split::kAll, uint32_t first_batch = 0) {
  Ended out;
  auto reader = data::open_shard(plan, part, {}, range, first_batch);
  if (!reader) {
    out.error = reader.error();
    return out;
  }
  Batch batch;
  uint64_t sum_of_batches = 0, given_before = 0;
  for (uint32_t number = first_batch;; ++number) {
    auto more = (*reader)->next(batch);
    if (!more) {
      out.error = more.error();
      return out;
    }
    if (!*more) break;
    if (batch.id.batch != number) out.fault = "a batch is missing, or stands twice";
    if (batch.records == 0 || batch.records > plan->batch_size)
      out.fault = "a batch of a wrong size";
    if (out.fault.empty()) out.fault = check_columns(batch, plan->layout);
    if (!out.fault.empty()) return out;
    for (uint32_t r = 0; r < batch.records; ++r) out.sums.content += content_of(batch, r);
    sum_of_batches += batch.records_hash;
    out.sums.records += batch.records;
  }
  const data::ShardTotals& totals = (*reader)->totals();
  out.sums.counts = totals.counts;
  out.sums.records_hash = totals.records_hash;
  out.first_offset = totals.first_offset;
  out.end_offset = totals.end_offset;
  given_before = uint64_t(std::min(first_batch, totals.batches)) * plan->batch_size;
  const uint64_t good = out.sums.records + std::min(given_before, totals.counts.read);
  const ReadCounts& c = totals.counts;
  if (first_batch == 0 && good + c.skipped + c.filtered + c.dropped + c.quarantined != c.read)
    out.fault = str("the account does not balance: ", out.sums.text());
  if (first_batch == 0 && sum_of_batches != totals.records_hash)
    out.fault = "the batches' hashes are not the shard's";
  return out;
}

/// Reads all ranges in sequence and adds their results. Stops at the first error or fault.
Ended read_ranges(const std::shared_ptr<const ReadPlan>& plan,
                  const std::vector<ShardRange>& ranges) {
  Ended out;
  uint64_t at = 0;
  for (const ShardRange& range : ranges) {
    const Ended one = read_range(plan, range);
    if (!one.good()) return one;
    if (one.first_offset != at) {
      out.fault = str("the shard [", range.begin, ", ", range.end, ") starts at ", one.first_offset,
                      ", the one before ended at ", at);
      return out;
    }
    at = one.end_offset;
    out.sums.add(one.sums);
  }
  out.end_offset = at;
  return out;
}

std::shared_ptr<ReadPlan> with(const ReadPlan& plan, BadRecords bad, std::string_view shuffle) {
  auto other = std::make_shared<ReadPlan>(plan);
  other->data.bad_records = bad;
  other->data.shuffle = shuffle;
  return other;
}

/// The checks of one data set. run() returns the fault of the first check that fails.
class Checks {
 public:
  Checks(std::shared_ptr<ReadPlan> plan, std::string path, uint64_t knobs, bool random)
      : plan_(std::move(plan)), path_(std::move(path)), knobs_(knobs), random_(random) {}

  std::string run() {
    plan_->batch_size = 1 + uint32_t(knobs_ % 7);
    skipping_ = with(*plan_, BadRecords::kSkip, "off");
    failing_ = with(*plan_, BadRecords::kFail, "off");
    all_ = {0, 0, plan_->files[0].bytes};
    whole_ = read_range(skipping_, all_);
    if (!whole_.fault.empty()) return whole_.fault;
    if (plan_->data.filter.empty() && whole_.sums.counts.filtered > 0)
      return str(whole_.sums.counts.filtered, " records filtered, and there is no filter");
    if (whole_.error) {
      if (std::string fault = check_error(*whole_.error, path_); !fault.empty()) return fault;
    }
    for (const auto step : {&Checks::again, &Checks::failing, &Checks::pieces, &Checks::shuffled,
                            &Checks::late, &Checks::held_out, &Checks::shares}) {
      if (std::string fault = (this->*step)(); !fault.empty()) return fault;
    }
    return "";
  }

 private:
  std::string differs(const char* what, const Ended& other) const {
    if (!other.fault.empty()) return str(what, ": ", other.fault);
    if (other.error.has_value() != whole_.error.has_value()) {
      return str(what, ": ", other.error ? other.error->what : "no error",
                 ", but the whole: ", whole_.error ? whole_.error->what : "no error");
    }
    if (other.error || other.sums == whole_.sums) return "";
    return str(what, ": ", other.sums.text(), "; the whole: ", whole_.sums.text());
  }
  std::string again() {
    const Ended twice = read_range(skipping_, all_);
    if (twice.error && whole_.error &&
        (twice.error->what != whole_.error->what || twice.error->where != whole_.error->where))
      return str("read again: ", twice.error->what, ", before: ", whole_.error->what);
    return differs("read again", twice);
  }
  std::string failing() {
    const Ended strict = read_range(failing_, all_);
    if (!strict.fault.empty()) return str("bad records fail: ", strict.fault);
    if (whole_.error) return strict.error ? "" : "no error where skipping ends in one";
    if (whole_.sums.counts.skipped == 0) return differs("bad records fail", strict);
    if (!strict.error) return "a bad record was let through";
    if (strict.error->code != ErrorCode::kBadData) return "a bad record's error is no kBadData";
    return check_error(*strict.error, path_);
  }
  std::string pieces() {
    const uint64_t bytes = plan_->files[0].bytes;
    const uint64_t target = std::max<uint64_t>(bytes / (1 + (knobs_ >> 8) % 12), 1);
    if (const auto cut = data::find_cuts(plan_->data, plan_->source, target, files_ = plan_->files);
        !cut)
      return check_error(cut.error(), path_);
    cut_compressed(target);
    const auto ranges = plan::cut_shards(files_, target);
    auto cut_plan = with(*skipping_, BadRecords::kSkip, "off");
    cut_plan->streams = data::make_record_streams();
    cut_plan->files = files_;
    const Ended all = read_ranges(cut_plan, ranges);
    if (all.good() && all.end_offset != bytes)
      return str("the shards end at ", all.end_offset, " of ", bytes);
    if (std::string fault = differs("piece by piece", all); !fault.empty()) return fault;
    if (whole_.error || (knobs_ >> 16) % 4 != 0) return "";
    cut_plan = with(*cut_plan, BadRecords::kFail, "off");
    const bool bad = read_ranges(cut_plan, ranges).error.has_value();
    return bad == (whole_.sums.counts.skipped > 0) ? "" : "pieces disagree on bad records";
  }
  /// Adds cuts to a compressed file, which makes it a stream of several shards.
  void cut_compressed(uint64_t target) {
    const DataFormat format = plan_->data.format;
    const bool whole =
        format == DataFormat::kMnist || format == DataFormat::kNpy || format == DataFormat::kNpz;
    if (whole || files_[0].is_cut()) return;
    const auto ratio = data::compression_ratio(path_);
    if (!ratio || !*ratio) return;
    for (uint64_t cut = target; cut < files_[0].bytes; cut += target) files_[0].cuts.push_back(cut);
  }
  std::string shuffled() {
    if ((knobs_ >> 20) % 3 != 0) return "";
    return differs("shuffled", read_range(with(*plan_, BadRecords::kSkip, "shard"), all_));
  }
  std::string late() {
    if (whole_.error || (knobs_ >> 24) % 3 != 0) return "";
    const Ended rest = read_range(skipping_, all_, Split::kAll, uint32_t((knobs_ >> 32) % 5));
    if (!rest.good())
      return str("from a later batch: ", rest.error ? rest.error->what : rest.fault);
    const bool same = rest.sums.counts == whole_.sums.counts &&
                      rest.sums.records_hash == whole_.sums.records_hash &&
                      rest.end_offset == whole_.end_offset;
    return same ? "" : "read from a later batch on it has other totals";
  }
  std::string held_out() {
    if (whole_.error || (knobs_ >> 28) % 3 != 0) return "";
    auto plan = with(*skipping_, BadRecords::kSkip, "off");
    plan->holdout = 0.3;
    const Ended train = read_range(plan, all_, Split::kTrain),
                held = read_range(plan, all_, Split::kHeldOut);
    if (!train.good() || !held.good()) return "an error with a holdout where there is none without";
    if (train.sums.counts.read != whole_.sums.counts.read ||
        train.sums.records + held.sums.records != whole_.sums.records ||
        train.sums.records_hash + held.sums.records_hash != whole_.sums.records_hash ||
        (!random_ && train.sums.content + held.sums.content != whole_.sums.content))
      return "what is held out and what is trained are not the whole";
    return "";
  }
  std::string shares() {
    if (whole_.error || (knobs_ >> 36) % 4 != 0) return "";
    const uint64_t bytes = plan_->files[0].bytes;
    const uint64_t target = std::max<uint64_t>(bytes / (1 + (knobs_ >> 40) % 5), 1);
    Sums sums;
    for (uint32_t index = 0; index < 2; ++index) {
      auto plan = with(*skipping_, BadRecords::kSkip, "off");
      plan->source.shard_count = 2;
      plan->source.shard_index = index;
      if (const auto cut = data::find_cuts(plan->data, plan->source, target, plan->files); !cut)
        return check_error(cut.error(), path_);
      files_ = plan->files;
      if (const auto counted = data::count_pieces(*plan, target, files_); !counted)
        return str("counting: ", counted.error().what);
      plan->files = files_;
      for (const ShardRange& range : plan::cut_shards(files_, target)) {
        const Ended one = read_range(plan, range);
        if (!one.good()) return str("a share: ", one.error ? one.error->what : one.fault);
        sums.add(one.sums);
      }
    }
    return sums == whole_.sums ? ""
                               : str("the two halves by number: ", sums.text(),
                                     "; the whole: ", whole_.sums.text());
  }

  const std::shared_ptr<ReadPlan> plan_;
  const std::string path_;
  const uint64_t knobs_;
  const bool random_;
  std::shared_ptr<const ReadPlan> skipping_, failing_;
  ShardRange all_;
  Ended whole_;
  std::vector<FileInfo> files_;
};

DataSpec data_of(std::string_view job) {
  auto loaded =
      load_job(JobSource{"/fuzz.toml",
                         str("data.source = \"x\"\nmodel.preset = \"linear_regression\"\n", job)},
               {}, [](const std::string&) { return std::nullopt; });
  DP_CHECK(loaded, loaded ? "" : loaded.error().where + ": " + loaded.error().what);
  return loaded->job.data;
}

}  // namespace

Reading::Reading(std::string_view job) : Reading(data_of(job)) {}

Reading::Reading(DataSpec data) : data_(std::move(data)) {
  const std::vector<FieldSpec> own =
      data_.fields.empty() ? default_fields(data_.format) : data_.fields;
  for (const FieldSpec& field : own) {
    if (is_sparse(field)) {
      layout_.bags.push_back({field.name, 0});
      layout_.tables = {TableId(0)};
    } else {
      uint32_t width = 1;
      for (const int64_t d : number_shape(field)) width *= uint32_t(d);
      layout_.floats.push_back({field.name, width});
    }
    for (const TransformSpec& op : field.transform) random_ |= info_of(op).random;
  }
}

std::shared_ptr<ReadPlan> Reading::plan_of(const std::string& path) const {
  auto plan = std::make_shared<ReadPlan>();
  plan->data = data_;
  plan->data.source.paths = {path};
  plan->layout = layout_;
  plan->vocabularies = vocabularies_;
  if (reads_++ % kReadsOfScratch == 0) scratch_ = data::make_scratch_pool();
  plan->scratch = scratch_;
  return plan;
}

std::string Reading::check(const std::string& path, uint64_t knobs) const {
  auto plan = plan_of(path);
  auto files = data::list_files(plan->data, plan->data.source, "/");
  if (!files) return check_error(files.error(), path);
  if (files->size() != 1) return str("one path is ", files->size(), " files");
  plan->files = std::move(*files);
  return Checks(plan, path, knobs, random_).run();
}

std::string Reading::check_once(const std::string& path, bool shuffle) const {
  auto plan = plan_of(path);
  auto files = data::list_files(plan->data, plan->data.source, "/");
  if (!files) return check_error(files.error(), path);
  plan->files = std::move(*files);
  const Ended all = read_range(with(*plan, BadRecords::kSkip, shuffle ? "shard" : "off"),
                               {0, 0, plan->files[0].bytes});
  return all.error ? check_error(*all.error, path) : all.fault;
}

Target target_of_file(const std::string& folder, const std::string& name, std::string_view job,
                      std::function<std::string(Rng&)> bytes) {
  const auto reading = std::make_shared<Reading>(job);
  const std::string path = folder + "/" + name;
  return {.name = name,
          .make = [bytes = std::move(bytes)](Rng& rng) { return Input{.files = {bytes(rng)}}; },
          .run =
              [=](const Input& input) {
                write_file(path, input.files[0]);
                return reading->check(path, input.knobs);
              }};
}

std::string check_error(const Error& error, const std::string& path) {
  const bool fitting = error.code == ErrorCode::kBadData || error.code == ErrorCode::kNoInput ||
                       error.code == ErrorCode::kConfig || error.code == ErrorCode::kUnsupported;
  if (!fitting) return str("an error of code ", int(error.code), ": ", error.what);
  // The error may name another file of the data set, in the same folder or below.
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (str(error.where, " ", error.what).find(folder) != std::string::npos) return "";
  return str("an error that does not name the file: \"", error.what, "\" at \"", error.where, "\"");
}

void write_file(const std::string& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  DP_CHECK(fd >= 0, path);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    DP_CHECK(n > 0, path);
    bytes.remove_prefix(size_t(n));
  }
  ::close(fd);
}

}  // namespace downpour::fuzz
