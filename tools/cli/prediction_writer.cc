#include "tools/cli/prediction_writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "shared/base/human.h"
#include "shared/data/bytes/compress.h"
#include "shared/data/formats/codec.h"
#include "shared/data/formats/numpy/npy_header.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/env/io_error.h"
#include "shared/job/losses.h"
#include "tools/data/data_set.h"
#include "tools/data/record_walk.h"

namespace downpour::tools {
namespace {

using data::FieldValues;
using data::ValueField;
using data::ValueKind;

/// The names of an output's classes; empty if its predictions are of no classes. The classes of a
/// softmax without names are numbers.
struct Classes {
  std::vector<std::string> names;
  uint32_t count = 0;
};

Classes classes_of(const Job& job, size_t output, uint32_t width) {
  const FieldSpec* const target = job.data.find_field(job.model.outputs[output].target);
  const size_t named = target == nullptr ? 0 : target->classes.size();
  if (named > 0 && (named == width || (named == 2 && width == 1)))
    return {.names = target->classes, .count = uint32_t(named)};
  return {.count = width > 1 ? width : 0};
}

std::string class_name(const Classes& classes, uint32_t k) {
  return classes.names.empty() ? str(k) : printable(classes.names[k]);
}

struct Encoding {
  DataFormat format = DataFormat::kTsv;
  data::Compression compression = data::Compression::kNone;
};

Error write_error(const std::string& path, int number) {
  return system_error("can't write the predictions", path, number, Intent::kCreate);
}

/// An output file, which gets its name when it is complete, and the first error of writing it.
class OutFile {
 public:
  static Result<OutFile> open(const std::string& path) {
    OutFile out(path);
    std::error_code ignored;
    const bool exists = std::filesystem::exists(path, ignored);
    const bool in_place = exists && !std::filesystem::is_regular_file(path, ignored);  // a pipe
    if (path != "-" && !in_place) out.unfinished_ = path + ".tmp";
    out.file_ =
        path == "-" ? stdout : std::fopen(in_place ? path.c_str() : out.unfinished_.c_str(), "w");
    if (out.file_ != nullptr) return out;
    return write_error(path, errno);
  }
  OutFile(OutFile&& other) noexcept
      : path_(std::move(other.path_)),
        unfinished_(std::exchange(other.unfinished_, "")),
        file_(std::exchange(other.file_, nullptr)),
        error_(other.error_) {}
  ~OutFile() { (void)finish(false); }

  void write(std::string_view bytes) {
    if (bytes.empty()) return;
    note(std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size());
  }
  void write_at_begin(std::string_view bytes) {
    note(std::fseek(file_, 0, SEEK_SET) == 0);
    write(bytes);
  }
  Result<void> finish(bool complete) {
    if (file_ == nullptr) return {};
    note(std::fflush(file_) == 0);
    if (file_ != stdout) note(std::fclose(file_) == 0);
    file_ = nullptr;
    if (!unfinished_.empty()) {
      if (complete && error_ == 0) note(std::rename(unfinished_.c_str(), path_.c_str()) == 0);
      if (!complete || error_ != 0) std::remove(unfinished_.c_str());
    }
    if (error_ == 0) return {};
    return write_error(path_, error_);
  }

 private:
  explicit OutFile(std::string path) : path_(std::move(path)) {}
  void note(bool done) {
    if (!done && error_ == 0) error_ = errno;
  }

  std::string path_;
  std::string unfinished_;  // the name until it is complete; empty: `path_`
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

/// Passes the bytes of a compressed file on to `out`, which gives the file its name.
class CompressedBytes final : public OutputFile {
 public:
  explicit CompressedBytes(OutFile& out) : out_(out) {}
  Result<void> append(std::span<const uint8_t> bytes) override {
    out_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return {};  // the caller asks `out` for errors
  }
  Result<void> commit() override { return {}; }

 private:
  OutFile& out_;
};

/// Reads the columns of ids from the data that are predicted, record by record.
class IdReader {
 public:
  static Result<IdReader> open(const Job& job, const std::vector<std::string>& names) {
    DataSet set{.job = job, .from_job = true, .declared = true};
    set.job.data.source = job.eval.source;
    DP_TRY(set.files, data::list_files(set.data(), set.data().source, set.job.base_dir));
    DP_TRY(RecordWalk walk, RecordWalk::open(set, {}, 0));
    IdReader reader(set.job.data, std::move(walk));
    for (const std::string& name : names) {
      // A column keeps its text, so that "007" stays "007".
      reader.fields_.push_back({.name = name, .kind = ValueKind::kText, .spec = {.name = name}});
      if (!is_lines(job.data.format) || traits_of(job.data.format).layout != RecordLayout::kTable)
        reader.fields_.back().kind = ValueKind::kNone;
    }
    reader.found_.resize(names.size());
    const auto decoder =
        data::make_decoder(reader.data_, set.files.front().path, reader.fields_, kUnnamed);
    if (!decoder) return at_flag(decoder.error());
    return reader;
  }

  /// Sets the first entries of `values` to the ids of the next record.
  Result<void> next(std::vector<FieldValues>& values) {
    RawRecord record;
    DP_TRY(const bool more, walk_.next(record));
    if (!more) return fewer();
    if (file_ != &walk_.file()) {
      file_ = &walk_.file();
      auto decoder = data::make_decoder(data_, file_->path, fields_, kUnnamed);
      if (!decoder) return at_flag(decoder.error());
      decoder_ = std::move(*decoder);
    }
    data::Fault fault = record.fault;
    if (fault.reason != nullptr || !decoder_->decode(record, ids_, fault))
      return bad_record(fault, record);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (ids_[i].count() > 1) {
        return Error{ErrorCode::kBadData,
                     str("column ", fields_[i].name, " has several values, which is no id"),
                     walk_.where(record), "name another column in --id"};
      }
      found_[i] = found_[i] || !ids_[i].missing();
      std::swap(values[i], ids_[i]);
    }
    return {};
  }
  /// Checks that no record is left, and that each column is in the data.
  Result<void> at_end() {
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (found_[i]) continue;
      return Error{ErrorCode::kBadData, str("--id: no record has a value of ", fields_[i].name), "",
                   "downpour data head shows the fields of the data"};
    }
    RawRecord record;
    DP_TRY(const bool more, walk_.next(record));
    if (more) return fewer();
    return {};
  }

 private:
  static constexpr data::Unnamed kUnnamed = data::Unnamed::kIgnore;

  IdReader(DataSpec data, RecordWalk walk) : data_(std::move(data)), walk_(std::move(walk)) {}
  static Error at_flag(Error error) {
    error.what = str("--id: ", error.what);
    return error;
  }
  Error bad_record(const data::Fault& fault, const RawRecord& record) {
    Error error = data::bad_record_error(fault, walk_.where(record));
    error.hint = "correct or remove the record: each record gets a prediction";
    return error;
  }
  static Error fewer() {
    return Error{ErrorCode::kBadData,
                 "the data changed while they were predicted, so the ids are of other records", "",
                 "run it again when no other program writes to the files"};
  }

  DataSpec data_;
  RecordWalk walk_;
  std::vector<ValueField> fields_;
  const plan::FileInfo* file_ = nullptr;
  std::unique_ptr<data::RecordDecoder> decoder_;
  std::vector<FieldValues> ids_;
  std::vector<bool> found_;  // for each field: a record has a value of it
};

/// Writes a line for each record.
class LineWriter final : public PredictionWriter {
 public:
  static Result<std::unique_ptr<PredictionWriter>> open(const Job& job,
                                                        const std::vector<uint32_t>& widths,
                                                        const PredictionForm& form,
                                                        const Encoding& encoding) {
    std::unique_ptr<LineWriter> writer(new LineWriter(widths));
    std::vector<ValueField> fields;
    for (const std::string& id : form.ids) fields.push_back({.name = id});
    if (!form.ids.empty()) {
      DP_TRY(IdReader ids, IdReader::open(job, form.ids));
      writer->ids_.emplace(std::move(ids));
    }
    writer->first_ = fields.size();
    for (size_t o = 0; o < widths.size() && form.top > 0; ++o) {
      const OutputSpec& output = job.model.outputs[o];
      if (!find_loss(output.loss)->is_margin) continue;
      return Error{ErrorCode::kUsage,
                   str("--top writes probabilities, and output `", output.name, "` with the loss ",
                       output.loss, " has ", find_loss(output.loss)->prediction(), "s"),
                   job.run_dir, "leave it out, to get the predicted values"};
    }
    for (size_t o = 0; o < widths.size(); ++o) writer->add_output(job, o, form.top, fields);
    if (form.top > 0 && std::ranges::all_of(writer->tops_, [](uint32_t top) { return top == 0; })) {
      return Error{ErrorCode::kUsage, "--top: no output of this model has classes", job.run_dir,
                   "leave it out, to get the predicted values"};
    }
    for (auto field = fields.begin(); field != fields.end(); ++field) {
      if (std::find_if(fields.begin(), field, [&](const ValueField& earlier) {
            return earlier.name == field->name;
          }) == field)
        continue;
      return Error{ErrorCode::kUsage, str("two columns would be named ", printable(field->name)),
                   size_t(field - fields.begin()) < writer->first_ ? "--id" : "--top",
                   "leave one out: a reader of the file could not tell them apart"};
    }
    DP_TRY(writer->encoder_, data::make_encoder({.format = encoding.format, .fields = fields}));
    writer->values_.resize(fields.size());
    DP_TRY(OutFile out, OutFile::open(form.out));
    writer->out_.emplace(std::move(out));
    if (encoding.compression != data::Compression::kNone) {
      writer->packed_ = data::compress_to(std::make_unique<CompressedBytes>(*writer->out_),
                                          encoding.compression, 0);
    }
    if (form.header && traits_of(encoding.format).layout == RecordLayout::kTable)
      writer->write(writer->encoder_->preamble());
    return std::unique_ptr<PredictionWriter>(std::move(writer));
  }

  void add(const chief::PredictionBatch& batch) override {
    if (!status_) return;
    text_.clear();
    for (uint32_t r = 0; r < batch.records && status_; ++r) status_ = add_record(batch, r);
    write(text_);
  }

  Result<void> finish(bool complete) override {
    if (status_ && complete && ids_) status_ = ids_->at_end();
    if (packed_) DP_TRY_VOID(packed_->finish());
    auto written = out_->finish(complete && status_);
    return status_ ? std::move(written) : std::move(status_);
  }

 private:
  explicit LineWriter(const std::vector<uint32_t>& widths) : widths_(widths) {}

  void write(std::string_view bytes) {
    if (!packed_) return out_->write(bytes);
    (void)packed_->add(bytes);  // CompressedBytes keeps errors for finish()
  }

  void add_output(const Job& job, size_t o, uint32_t top, std::vector<ValueField>& fields) {
    const std::string& name = job.model.outputs[o].name;
    const std::string& target = job.model.outputs[o].target;
    classes_.push_back(classes_of(job, o, widths_[o]));
    tops_.push_back(std::min(top, classes_[o].count));
    for (uint32_t k = 0; k < tops_[o]; ++k) {
      const std::string place = tops_[o] == 1 ? target : str(target, "/", k + 1);
      fields.push_back({.name = place});
      fields.push_back({.name = place + "/probability"});
    }
    if (tops_[o] > 0) return;
    for (uint32_t k = 0; k < widths_[o]; ++k)
      fields.push_back(
          {.name = widths_[o] == 1 ? name : str(name, "/", class_name(classes_[o], k))});
  }

  Result<void> add_record(const chief::PredictionBatch& batch, uint32_t r) {
    if (ids_) DP_TRY_VOID(ids_->next(values_));
    size_t begin = 0, at = first_;  // of the output's values in the batch; of its fields
    for (size_t o = 0; o < widths_.size(); ++o) {
      scores_.clear();
      for (uint32_t k = 0; k < widths_[o]; ++k)
        scores_.push_back(batch.values.load<float>(begin + size_t(r) * widths_[o] + k));
      begin += size_t(batch.records) * widths_[o];
      if (tops_[o] > 0) {
        add_top(o, at);
        at += 2 * tops_[o];
        continue;
      }
      for (const float score : scores_) set(values_[at++], score);
    }
    data::Fault fault;
    if (encoder_->encode(values_, text_, fault)) return {};
    return Error{ErrorCode::kBadData,
                 str("a record can't be written: ",
                     fault.field == nullptr ? "a value" : *fault.field, " ", fault.reason),
                 "", "choose another format, for example --format jsonl"};
  }

  /// Sets the names and probabilities of the likeliest classes.
  void add_top(size_t o, size_t at) {
    if (scores_.size() == 1) scores_ = {1 - scores_[0], scores_[0]};
    order_.resize(scores_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::partial_sort(order_.begin(), order_.begin() + tops_[o], order_.end(),
                      [&](uint32_t a, uint32_t b) {
                        return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
                      });
    for (uint32_t k = 0; k < tops_[o]; ++k) {
      FieldValues& name = values_[at + 2 * k];
      name.clear();
      if (classes_[o].names.empty())
        name.add(int64_t(order_[k]));
      else
        name.add_text(classes_[o].names[order_[k]]);
      set(values_[at + 2 * k + 1], scores_[order_[k]]);
    }
  }
  static void set(FieldValues& values, float score) {
    values.clear();
    values.add_real(double(score), true);
  }

  const std::vector<uint32_t> widths_;
  std::vector<Classes> classes_;  // of each output
  std::vector<uint32_t> tops_;    // of each output; 0: all its values are written
  std::optional<IdReader> ids_;
  size_t first_ = 0;  // the fields before are ids
  std::unique_ptr<data::RecordEncoder> encoder_;
  std::optional<OutFile> out_;
  std::unique_ptr<data::CompressedFile> packed_;  // null: `out_` is not compressed
  std::vector<FieldValues> values_;
  std::vector<float> scores_;
  std::vector<uint32_t> order_;
  std::string text_;
  Result<void> status_;
};

/// Writes an array [records, values of all outputs] of NumPy.
class ArrayWriter final : public PredictionWriter {
 public:
  static Result<std::unique_ptr<PredictionWriter>> open(const std::vector<uint32_t>& widths,
                                                        const PredictionForm& form) {
    if (form.out == "-" || !form.ids.empty() || form.header || form.top > 0) {
      return Error{ErrorCode::kUsage,
                   form.out == "-" ? "npy can't be written to stdout"
                                   : "an array of predictions has no ids, names and header",
                   form.out == "-" ? "--out" : "--format",
                   form.out == "-" ? "name a file: --out predictions.npy"
                                   : "leave out --id, --header and --top, or write csv or jsonl"};
    }
    DP_TRY(OutFile out, OutFile::open(form.out));
    out.write(header(widths, kRecordsMax));
    return std::unique_ptr<PredictionWriter>(new ArrayWriter(widths, std::move(out)));
  }

  void add(const chief::PredictionBatch& batch) override {
    std::vector<float> rows;
    for (uint32_t r = 0; r < batch.records; ++r) {
      size_t begin = 0;
      for (const uint32_t width : widths_) {
        for (uint32_t k = 0; k < width; ++k)
          rows.push_back(batch.values.load<float>(begin + size_t(r) * width + k));
        begin += size_t(batch.records) * width;
      }
    }
    records_ += batch.records;
    out_.write({reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)});
  }

  Result<void> finish(bool complete) override {
    const std::string real = header(widths_, records_);
    DP_CHECK(real.size() == header(widths_, kRecordsMax).size());
    out_.write_at_begin(real);
    return out_.finish(complete);
  }

 private:
  static constexpr uint64_t kRecordsMax = uint64_t{1} << 40;

  ArrayWriter(const std::vector<uint32_t>& widths, OutFile out)
      : widths_(widths), out_(std::move(out)) {}
  /// The header has the same length for all numbers of records.
  static std::string header(const std::vector<uint32_t>& widths, uint64_t records) {
    const uint64_t width = std::accumulate(widths.begin(), widths.end(), uint64_t{0});
    return data::npy_header({.descr = "<f4", .row_shape = {width}, .row_bytes = 4 * width},
                            records);
  }

  const std::vector<uint32_t> widths_;
  OutFile out_;
  uint64_t records_ = 0;
};

/// Returns how the user wants the file to be written.
Result<Encoding> encoding_of(const PredictionForm& form) {
  constexpr std::array kForms{DataFormat::kTsv, DataFormat::kCsv, DataFormat::kJsonl,
                              DataFormat::kNpy};
  std::filesystem::path name = form.out;
  Encoding encoding;
  if (name.extension() == ".gz") encoding.compression = data::Compression::kGzip;
  if (name.extension() == ".zst") encoding.compression = data::Compression::kZstd;
  if (encoding.compression != data::Compression::kNone) name.replace_extension();
  const std::string ending = name.extension().string();
  const auto* const found = std::ranges::find_if(kForms, [&](DataFormat format) {
    return form.format.empty() ? ending == str(".", format_name(format))
                               : form.format == format_name(format);
  });
  if (found == kForms.end() && !form.format.empty()) {
    return Error{ErrorCode::kUsage, str("predictions can't be written as ", printable(form.format)),
                 "--format", "use tsv, csv, jsonl or npy"};
  }
  if (found != kForms.end()) encoding.format = *found;
  if (!is_arrays(encoding.format) || encoding.compression == data::Compression::kNone)
    return encoding;
  return Error{ErrorCode::kUsage,
               "npy output can't be compressed, because arrays are read in place", form.out,
               "name a .npy file in --out"};
}

}  // namespace

Result<std::unique_ptr<PredictionWriter>> write_predictions(const Job& job,
                                                            const std::vector<uint32_t>& widths,
                                                            const PredictionForm& form) {
  DP_TRY(const Encoding encoding, encoding_of(form));
  if (form.raw && form.top > 0) {
    return Error{ErrorCode::kUsage, "--top writes probabilities, and --raw writes none", "--raw",
                 "leave out one of them"};
  }
  if (is_arrays(encoding.format)) return ArrayWriter::open(widths, form);
  return LineWriter::open(job, widths, form, encoding);
}

}  // namespace downpour::tools
