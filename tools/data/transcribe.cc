#include "tools/data/transcribe.h"

#include <algorithm>

#include "shared/data/formats/example/tfrecord.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/records/line_windows.h"
#include "shared/job/formats.h"
#include "tools/data/look.h"

namespace downpour::tools {
namespace {

std::string descr_of(data::NpyType type) {
  const char order = type.bytes == 1 ? '|' : type.big_endian ? '>' : '<';
  return str(order, type.kind, type.bytes);
}

/// Returns the arrays of a source in the order of a record's bytes.
Result<std::vector<data::ArrayForm>> forms_of(const DataSpec& data, const std::string& path) {
  DP_TRY(const std::vector<data::SourceArray> arrays, data::open_arrays(data, path));
  std::vector<data::ArrayForm> forms;
  for (const data::SourceArray& array : arrays) {
    data::ArrayForm& form = forms.emplace_back();
    form.file =
        array.name.empty() || array.name.ends_with(".npy") ? array.name : array.name + ".npy";
    form.descr = descr_of(array.array.type);
    form.row_shape.assign(array.array.shape.begin() + 1, array.array.shape.end());
    form.row_bytes = array.array.row_bytes();
  }
  return forms;
}

/// The header line that all files share, and the first file with another header, if any.
struct SharedHeader {
  std::string preamble;
  const plan::FileInfo* other = nullptr;
};
Result<SharedHeader> header_of(const DataSet& set) {
  SharedHeader shared;
  if (!set.data().header || !is_lines(set.data().format)) return shared;
  for (const plan::FileInfo& info : set.files) {
    DP_TRY(const data::Preamble found, data::read_preamble(info.path, set.data(), /*header=*/true));
    const std::string preamble = found.header + "\n";
    if (&info == &set.files.front()) shared.preamble = preamble;
    if (preamble == shared.preamble) continue;
    shared.other = &info;
    break;
  }
  return shared;
}

/// Returns the format in which data of this format are written.
DataFormat written_as(DataFormat format) {
  const DataFormat other = traits_of(format).copied_as;
  return is_decided(other) ? other : format;
}

data::Encoding encoding_of(const DataSet& set, const Transcription& how) {
  return {.format = how.to,
          .fields = how.fields,
          .target = how.target,
          .breaks = set.data().quoted_newlines};
}

std::string target_of(const DataSet& set, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (!set.job.model.outputs.empty()) return set.job.model.outputs.front().target;
  return set.job.model.options.target;
}

}  // namespace

Result<Transcription> plan_transcription(const DataSet& set, DataFormat to,
                                         const std::string& target) {
  const DataSpec data = readable_data(set);
  Transcription how{.to = is_decided(to) ? to : written_as(data.format),
                    .target = target_of(set, target)};
  if (is_images(how.to)) {
    return Error{ErrorCode::kUsage, "images can't be written as an idx file", "--to",
                 "choose another format: --to npy or --to tfrecord"};
  }
  DP_TRY(const SharedHeader header, header_of(set));
  if (header.other != nullptr && !is_decided(to)) {
    return Error{ErrorCode::kBadData,
                 str("the headers of the files differ, so their lines can't be merged: ",
                     set.files.front().path, ", ", header.other->path),
                 header.other->path,
                 str("convert the files, which matches columns by name: --to ",
                     format_name(data.format), " writes the column order of the first file")};
  }
  how.converted = how.to != written_as(data.format) || header.other != nullptr;
  if (how.converted && !data.program.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "the job declares the columns of data.program's output, but shard converts the "
                 "original files",
                 "--to", "remove --to, or give the files instead of the job"};
  }
  if (!how.converted) {
    if (is_lines(data.format)) {
      how.preamble = header.preamble;
    } else if (is_arrays(data.format)) {
      DP_TRY(how.arrays, forms_of(data, set.files.front().path));
    }
    return how;
  }
  DP_TRY(how.fields, fields_of(set));
  if (is_lines(data.format))
    for (data::ValueField& field : how.fields)
      field.single = true;  // training would read the decimal digits as floats
  const std::string& path = set.files.front().path;
  DP_TRY(const auto decoder, data::make_decoder(data, path, how.fields, data::Unnamed::kIgnore));
  how.fields = decoder->fields();
  DP_TRY(const auto encoder, data::make_encoder(encoding_of(set, how)));
  how.preamble = encoder->preamble();
  how.arrays = encoder->arrays();
  return how;
}

Result<Transcriber> Transcriber::open(const DataSet& set, const Transcription& how, bool skip_bad) {
  DataSet files = set;  // records of the files, without the job's program
  files.job.data.program.clear();
  DP_TRY(RecordWalk walk, RecordWalk::open(files, {}, 0));
  Transcriber out(set, how, skip_bad, std::move(walk));
  if (how.converted) {
    DP_TRY(out.encoder_, data::make_encoder(encoding_of(set, how)));
  }
  return out;
}

Result<void> Transcriber::enter_file() {
  file_ = &walk_.file();
  if (how_.converted) {
    const data::Unnamed unnamed = declared_ ? data::Unnamed::kIgnore : data::Unnamed::kRefuse;
    DP_TRY(decoder_, data::make_decoder(data_, file_->path, how_.fields, unnamed));
    return {};
  }
  if (!is_arrays(data_.format)) return {};
  DP_TRY(const std::vector<data::ArrayForm> forms, forms_of(data_, file_->path));
  const bool alike =
      std::equal(forms.begin(), forms.end(), how_.arrays.begin(), how_.arrays.end(),
                 [](const data::ArrayForm& a, const data::ArrayForm& b) {
                   return a.file == b.file && a.descr == b.descr && a.row_shape == b.row_shape;
                 });
  if (alike) return {};
  return Error{ErrorCode::kBadData,
               str("its arrays differ from the arrays of the first source: ", file_->path),
               file_->path, "names, types and shapes of the rows must be the same"};
}

bool Transcriber::transcribe(const RawRecord& record, std::string_view& bytes, data::Fault& fault) {
  if (record.fault.reason != nullptr) {
    fault = record.fault;
    return false;
  }
  if (how_.converted) {
    encoded_.clear();
    if (!decoder_->decode(record, values_, fault) || !encoder_->encode(values_, encoded_, fault))
      return false;
    bytes = encoded_;
    return true;
  }
  bytes = record.bytes;
  if (is_frames(data_.format)) {  // extend the bytes to the frame around them
    bytes = {bytes.data() - data::kFrameHeaderBytes,
             bytes.size() + data::kFrameHeaderBytes + data::kFrameTailBytes};
  } else if (is_lines(data_.format)) {
    if (bytes.data()[bytes.size()] == '\n') {
      bytes = {bytes.data(), bytes.size() + 1};
    } else {  // CR LF
      encoded_.assign(bytes).append(1, '\n');
      bytes = encoded_;
    }
  }
  return true;
}

Result<bool> Transcriber::next(std::string_view& bytes) {
  RawRecord record;
  for (;;) {
    DP_TRY(const bool more, walk_.next(record));
    if (!more) return false;
    if (file_ != &walk_.file()) DP_TRY_VOID(enter_file());
    data::Fault fault;
    if (transcribe(record, bytes, fault)) return true;
    if (!skip_bad_) return data::bad_record_error(fault, walk_.where(record));
    ++skipped_;
  }
}

}  // namespace downpour::tools
