#include "tools/data/encoder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "shared/data/formats/example/tfrecord_writer.h"
#include "tools/data/data_set.h"
#include "tools/data/look.h"

namespace downpour::tools {
namespace {

Error cannot_say(DataFormat format, const ValueField& field, const std::string& why,
                 const std::string& hint) {
  return Error{ErrorCode::kConfig,
               str("field ", field.name, " can't be written as ", format_name(format), ": ", why),
               str("data.fields.", field.name), hint};
}

bool refuse(const char* reason, const ValueField& field, data::Fault& fault) {
  fault = {.reason = reason,
           .field = &field.name,
           .hint = "declare the field in a job file, or choose another --to"};
  return false;
}

/// Returns whether the values match the kind and shape of the field.
bool fits(const ValueField& field, const FieldValues& values, data::Fault& fault) {
  const bool number = values.kind == ValueKind::kInteger || values.kind == ValueKind::kReal;
  if (field.kind == ValueKind::kReal ? !number : field.kind != values.kind)
    return refuse("has another type of value than in the first records", field, fault);
  if (field.kind == ValueKind::kPairs) return true;
  const bool any = field.spec.is_bag() || (field.shape.size() == 1 && field.shape[0] < 0);
  if (any || values.count() == data::elements_of(field.shape)) return true;
  return refuse("has another number of values than in the first records", field, fault);
}

bool as_float(double value, float& to) {
  to = float(value);
  return std::isfinite(to) || !std::isfinite(value);
}

constexpr const char* kBeyondFloat = "has a number that exceeds a 32-bit float";

class ExampleEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const std::vector<ValueField>& fields) {
    for (const ValueField& field : fields) {
      if (field.kind == ValueKind::kNone) {
        return cannot_say(DataFormat::kTfrecord, field,
                          "its values have several types, or all are missing",
                          "declare the field in a job file, for example with type = \"string\"");
      }
    }
    auto out = std::make_unique<ExampleEncoder>();
    out->fields_ = fields;
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out,
              data::Fault& fault) override {
    example_.clear();
    for (size_t i = 0; i < fields_.size(); ++i) {
      const ValueField& field = fields_[i];
      const FieldValues& each = values[i];
      if (each.missing()) continue;  // the example has no such feature
      if (!fits(field, each, fault)) return false;
      if (field.kind == ValueKind::kInteger || field.kind == ValueKind::kPairs)
        example_.add(field.name, std::span(each.integers));
      if (field.kind == ValueKind::kReal || field.kind == ValueKind::kPairs) {
        floats_.resize(each.count());
        for (size_t v = 0; v < each.count(); ++v) {
          const double value = field.kind == ValueKind::kPairs ? each.reals[v] : each.number(v);
          if (!as_float(value, floats_[v])) return refuse(kBeyondFloat, field, fault);
        }
        const bool pairs = field.kind == ValueKind::kPairs;
        example_.add(pairs ? field.name + "_values" : field.name, std::span<const float>(floats_));
      }
      if (field.kind == ValueKind::kText) example_.add(field.name, std::span(each.texts));
      if (!each.groups.empty()) {
        const std::vector<int64_t> groups(each.groups.begin(), each.groups.end());
        example_.add(field.name + "_fields", std::span(groups));
      }
    }
    data::append_frame(out, example_.bytes());
    return true;
  }

 private:
  std::vector<ValueField> fields_;
  data::ExampleBuilder example_;
  std::vector<float> floats_;
};

class JsonEncoder final : public RecordEncoder {
 public:
  explicit JsonEncoder(std::vector<ValueField> fields) : fields_(std::move(fields)) {
    for (const ValueField& field : fields_) {
      names_.emplace_back();
      append_json_text(names_.back(), field.name);
    }
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out,
              data::Fault& fault) override {
    out += '{';
    bool any = false;
    for (size_t i = 0; i < fields_.size(); ++i) {
      const FieldValues& each = values[i];
      if (each.missing() && !each.list) continue;
      for (const double value : each.reals) {
        if (!std::isfinite(value))
          return refuse("is a number that JSON can't represent", fields_[i], fault);
      }
      for (const std::string_view text : each.texts) {
        if (!is_utf8(text)) return refuse("is not UTF-8, as JSON requires", fields_[i], fault);
      }
      out.append(any ? ", " : "").append(names_[i]).append(": ");
      append_json_value(out, each, fields_[i].shape.empty() && !each.list);
      any = true;
    }
    out += "}\n";
    return true;
  }

 private:
  std::vector<ValueField> fields_;
  std::vector<std::string> names_;  // as JSON strings
};

class TableEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(DataFormat format,
                                                     const std::vector<ValueField>& fields,
                                                     bool breaks) {
    auto out = std::make_unique<TableEncoder>();
    out->delimiter_ = format == DataFormat::kCsv ? ',' : '\t';
    out->quotes_ = format == DataFormat::kCsv;
    out->breaks_ = out->quotes_ && breaks;
    out->fields_ = fields;
    for (const ValueField& field : fields) {
      if (field.kind == ValueKind::kPairs || !field.shape.empty()) {
        return cannot_say(format, field,
                          "it has several values per record, but a cell holds one value",
                          "write tfrecord or jsonl: --to tfrecord");
      }
      if (&field != &fields.front()) out->preamble_ += out->delimiter_;
      data::Fault fault;
      if (!out->append_text(field.name, field, out->preamble_, fault))
        return cannot_say(format, field, "its name can't be written in a header",
                          "rename the field in a job");
    }
    out->preamble_ += '\n';
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out,
              data::Fault& fault) override {
    const size_t begin = out.size();
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) out += delimiter_;
      const FieldValues& each = values[i];
      if (each.missing()) continue;
      if (each.count() != 1)
        return refuse("has another number of values than in the first records", fields_[i], fault);
      if (each.kind == ValueKind::kInteger) append_number(out, each.integers[0]);
      if (each.kind == ValueKind::kReal) append_number(out, each.reals[0], each.single);
      if (each.kind == ValueKind::kText && !append_text(each.texts[0], fields_[i], out, fault))
        return false;
    }
    if (out.size() == begin && quotes_) out += "\"\"";  // readers skip an empty line
    if (out.size() == begin)
      return refuse("is missing and the only field, which would give an empty line", fields_[0],
                    fault);
    out += '\n';
    return true;
  }

 private:
  bool append_text(std::string_view text, const ValueField& field, std::string& out,
                   data::Fault& fault) const {
    const bool broken = text.find_first_of("\n\r") != std::string_view::npos;
    if (broken && !breaks_)
      return refuse("contains a line break, which a cell of this format can't contain", field,
                    fault);
    const bool apart = broken || text.find(delimiter_) != std::string_view::npos;
    if (!quotes_) {
      if (apart)
        return refuse("contains a tab, which a cell of this format can't contain", field, fault);
      out += text;
      return true;
    }
    const bool blank = !text.empty() && (text.front() == ' ' || text.back() == ' ');
    if (!apart && !blank && text.find('"') == std::string_view::npos) {
      out += text;
      return true;
    }
    out += '"';
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
    return true;
  }

  char delimiter_ = ',';
  bool quotes_ = true, breaks_ = false;
  std::vector<ValueField> fields_;
};

class LibsvmEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(DataFormat format,
                                                     const std::vector<ValueField>& fields,
                                                     const std::string& target) {
    auto out = std::make_unique<LibsvmEncoder>();
    out->fields_ = fields;
    const std::string& label = target.empty() ? "label" : target;
    uint64_t next = 1;
    for (size_t i = 0; i < fields.size(); ++i) {
      const ValueField& field = fields[i];
      const bool numbers = field.kind == ValueKind::kInteger || field.kind == ValueKind::kReal;
      if (field.name == label) {
        if (!numbers || !field.shape.empty())
          return cannot_say(format, field, "a label must be one number",
                            "choose another field: --target NAME");
        out->label_ = i;
        continue;
      }
      const bool any = field.shape.size() == 1 && field.shape[0] < 0;
      if ((!numbers && field.kind != ValueKind::kPairs) ||
          (any && field.kind != ValueKind::kPairs)) {
        return cannot_say(
            format, field,
            numbers ? "it has a variable number of values, but a feature has one value"
                    : str("it contains ", kind_name(field.kind), ", but features are numbers"),
            "write tfrecord or jsonl; or omit the field from data.fields of a job");
      }
      out->first_.resize(fields.size());
      out->first_[i] = next;
      next += field.kind == ValueKind::kPairs ? 0 : data::elements_of(field.shape);
    }
    out->first_.resize(fields.size());
    if (out->label_ == SIZE_MAX) {
      return Error{ErrorCode::kConfig, str("there is no field ", label, "for the label of libsvm"),
                   "data.fields", "set the field that is the label: --target NAME"};
    }
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out,
              data::Fault& fault) override {
    const FieldValues& label = values[label_];
    if (label.missing())
      return refuse("is missing, but each line starts with it", fields_[label_], fault);
    if (!fits(fields_[label_], label, fault)) return false;
    append(label, 0, out);
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (i == label_ || values[i].missing()) continue;
      if (!fits(fields_[i], values[i], fault)) return false;
      for (size_t v = 0; v < values[i].count(); ++v) {
        const bool pairs = values[i].kind == ValueKind::kPairs;
        const double value = pairs ? values[i].reals[v] : values[i].number(v);
        if (!std::isfinite(value)) return refuse("is not a finite number", fields_[i], fault);
        if (value == 0 && !pairs) continue;  // a feature that the line lacks is 0
        out += ' ';
        append_number(out, pairs ? values[i].integers[v] : int64_t(first_[i] + v));
        out += ':';
        if (pairs) {
          append_number(out, value, true);
        } else {
          append(values[i], v, out);
        }
      }
    }
    out += '\n';
    return true;
  }

 private:
  static void append(const FieldValues& values, size_t i, std::string& out) {
    if (values.kind == ValueKind::kInteger) return append_number(out, values.integers[i]);
    append_number(out, values.reals[i], values.single);
  }

  std::vector<ValueField> fields_;
  std::vector<uint64_t> first_;  // number of the first feature, per field
  size_t label_ = SIZE_MAX;
};

class ArrayEncoder final : public RecordEncoder {
 public:
  static Result<std::unique_ptr<RecordEncoder>> make(const std::vector<ValueField>& fields) {
    auto out = std::make_unique<ArrayEncoder>();
    out->fields_ = fields;
    for (const ValueField& field : fields) {
      const bool numbers = field.kind == ValueKind::kInteger || field.kind == ValueKind::kReal;
      const bool any = field.shape.size() == 1 && field.shape[0] < 0;
      if (!numbers || any) {
        return cannot_say(
            DataFormat::kNpy, field,
            any ? "its number of values varies, but all rows of an array have the same length"
                : str("it contains ", kind_name(field.kind), ", but arrays contain numbers"),
            "write tfrecord or jsonl; or omit the field from data.fields of a job");
      }
      const bool usable =
          !field.name.empty() && field.name[0] != '.' && field.name.find('/') == std::string::npos;
      if (!usable)
        return cannot_say(DataFormat::kNpy, field, "its name can't be a file name",
                          "rename the field in a job");
      ArrayForm& form = out->arrays_.emplace_back();
      form.file = field.name + ".npy";
      const bool wide = field.kind == ValueKind::kInteger || !field.single;
      form.descr = field.kind == ValueKind::kInteger ? "<i8" : wide ? "<f8" : "<f4";
      form.row_shape.assign(field.shape.begin(), field.shape.end());
      form.row_bytes = data::elements_of(field.shape) * (wide ? 8 : 4);
      const std::optional<std::string>& fallback = field.spec.fallback;
      double value = 0;
      bool known = false;
      if (fallback) {
        const char* const end = fallback->data() + fallback->size();
        const auto read = std::from_chars(fallback->data(), end, value);
        known = read.ec == std::errc{} && read.ptr == end;
      }
      out->fallbacks_.push_back(known ? std::optional(value) : std::nullopt);
    }
    return std::unique_ptr<RecordEncoder>(std::move(out));
  }

  bool encode(const std::vector<FieldValues>& values, std::string& out,
              data::Fault& fault) override {
    for (size_t i = 0; i < fields_.size(); ++i) {
      const ValueField& field = fields_[i];
      FieldValues filled;
      const FieldValues* each = &values[i];
      if (each->missing()) {
        if (!fallbacks_[i])
          return refuse("is missing, but an array needs a number for every record", field, fault);
        const uint64_t count = data::elements_of(field.shape);
        for (uint64_t v = 0; v < count; ++v) {
          field.kind == ValueKind::kInteger ? filled.add(int64_t(*fallbacks_[i]))
                                            : filled.add_real(*fallbacks_[i], field.single);
        }
        each = &filled;
      }
      if (!fits(field, *each, fault)) return false;
      for (size_t v = 0; v < each->count(); ++v) {
        float single = 0;
        if (field.kind == ValueKind::kInteger) {
          append_raw(out, each->integers[v]);
        } else if (!field.single) {
          append_raw(out, each->number(v));
        } else if (as_float(each->number(v), single)) {
          append_raw(out, single);
        } else {
          return refuse(kBeyondFloat, field, fault);
        }
      }
    }
    return true;
  }

 private:
  template <typename T>
  static void append_raw(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::vector<ValueField> fields_;
  std::vector<std::optional<double>> fallbacks_;
};

}  // namespace

std::string npy_header(const ArrayForm& form, uint64_t rows) {
  std::string shape = str("(", rows, ",");
  for (const uint64_t d : form.row_shape) shape += str(" ", d, ",");
  if (!form.row_shape.empty()) shape.pop_back();
  std::string header =
      str("{'descr': '", form.descr, "', 'fortran_order': False, 'shape': ", shape, "), }");
  constexpr size_t kBefore = 10;
  while ((kBefore + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const char size[2] = {char(header.size()), char(header.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + header;
}

Result<std::unique_ptr<RecordEncoder>> make_encoder(DataFormat format,
                                                    const std::vector<ValueField>& fields,
                                                    const std::string& target, bool breaks) {
  if (fields.empty()) {
    return Error{ErrorCode::kConfig,
                 "the data can't be converted, because their fields are not known", "data.fields",
                 "write a job that declares the fields, and use it instead of the files"};
  }
  switch (format) {
    case DataFormat::kTfrecord:
      return ExampleEncoder::make(fields);
    case DataFormat::kJsonl:
      return std::unique_ptr<RecordEncoder>(std::make_unique<JsonEncoder>(fields));
    case DataFormat::kCsv:
    case DataFormat::kTsv:
      return TableEncoder::make(format, fields, breaks);
    case DataFormat::kLibsvm:
      return LibsvmEncoder::make(format, fields, target);
    case DataFormat::kNpy:
      return ArrayEncoder::make(fields);
    default:
      return Error{ErrorCode::kUsage, str("conversion is not supported to ", format_name(format)),
                   "--to", "use tfrecord, jsonl, csv, tsv, libsvm or npy"};
  }
}

}  // namespace downpour::tools
