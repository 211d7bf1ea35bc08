// The visitor of keys.h that prints a job.
#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <span>

#include "shared/base/number_text.h"
#include "shared/job/interval.h"
#include "shared/job/job_tree.h"
#include "shared/job/keys.h"
#include "shared/job/runs.h"

namespace downpour {
namespace {

template <std::floating_point T>
std::string real_text(T value) {
  std::string text = number_text(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

template <typename T, typename F>
std::string list_text(const std::vector<T>& values, F&& item_text) {
  std::string text = "[";
  for (const T& value : values) text += str(text.size() > 1 ? ", " : "", item_text(value));
  return text + "]";
}

/// Quotes a text that may come from data: a `${` in it names no environment variable.
std::string literal(const std::string& text) {
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) escaped += '$';
    escaped += text[i];
  }
  return toml_quoted(escaped);
}

std::string strings_text(const std::vector<std::string>& values) {
  return list_text(values, literal);
}

class Printer {
 public:
  static constexpr bool kReads = false;
  Printer(std::string path, bool compress, std::vector<PrintedTable>& tables)
      : path_(std::move(path)), compress_(compress), tables_(tables) {}

  void text(const char* name, const std::string& value) {
    if (!value.empty()) add(name, literal(value));
  }
  void optional_text(const char* name, const std::optional<std::string>& value) {
    if (value) add(name, literal(*value));
  }
  void shuffle(const char* name, const std::string& value) {
    const bool window = value[0] >= '0' && value[0] <= '9';
    add(name, window ? value : literal(value));
  }
  void flag(const char* name, bool value) { add(name, value ? "true" : "false"); }
  template <std::unsigned_integral T>
  void number(const char* name, T value, double /*min*/, double /*max*/) {
    add(name, str(value));
  }
  template <std::unsigned_integral T>
  void automatic(const char* name, T value, double /*max*/) {
    add(name, value == 0 ? "\"auto\"" : str(value));
  }
  void bytes(const char* name, uint64_t value) { add(name, value == 0 ? "\"auto\"" : str(value)); }
  template <std::floating_point T>
  void real(const char* name, T value, Range /*range*/) {
    add(name, real_text(value));
  }
  void learned(const char* name, const Learned& value, Range range) {
    value.open ? add(name, "\"auto\"") : real(name, value.value, range);
  }
  void optional_learned(const char* name, const std::optional<Learned>& value, Range range) {
    if (value) learned(name, *value, range);
  }
  void interval(const char* name, const Interval& value) {
    add(name, value.ns > 0      ? toml_quoted(duration_text(value.ns))
              : value.steps > 0 ? str(value.steps)
                                : "\"epoch\"");
  }
  void optional_number(const char* name, const std::optional<uint64_t>& value, double /*max*/,
                       const char* zero = nullptr) {
    if (value) add(name, zero != nullptr && *value == 0 ? toml_quoted(zero) : str(*value));
  }
  template <std::unsigned_integral T>
  void count_or(const char* name, T value, double /*max*/, const char* zero) {
    add(name, value == 0 ? toml_quoted(zero) : str(value));
  }
  void reals(const char* name, const std::vector<double>& value) {
    if (!value.empty()) add(name, list_text(value, [](double real) { return real_text(real); }));
  }
  void duration(const char* name, int64_t ns) { add(name, toml_quoted(duration_text(ns))); }
  void optional_real(const char* name, const std::optional<double>& value) {
    if (value) add(name, real_text(*value));
  }
  void choice(const char* name, const std::string& value,
              std::initializer_list<const char*> /*choices*/,
              std::initializer_list<const char*> /*unavailable*/) {
    text(name, value);
  }
  void choice(const char* name, const std::string& value, std::span<const char* const> /*choices*/,
              std::span<const char* const> /*unavailable*/) {
    text(name, value);
  }
  template <typename E, size_t N>
  void enumeration(const char* name, E value, const std::array<EnumName<E>, N>& names,
                   std::initializer_list<const char*> /*unavailable*/) {
    for (const auto& [word, meaning] : names) {
      if (meaning == value) add(name, toml_quoted(word));
    }
  }
  void strings(const char* name, const std::vector<std::string>& value, bool runs = false) {
    if (!value.empty()) add(name, strings_text(runs && compress_ ? compress_runs(value) : value));
  }
  void counts(const char* name, const std::vector<uint32_t>& value) {
    if (!value.empty()) add(name, list_text(value, [](uint32_t count) { return str(count); }));
  }
  void shape(const char* name, const std::vector<int64_t>& value) {
    if (!value.empty()) add(name, list_text(value, [](int64_t d) { return str(d); }));
  }
  void source(const char* name, const SourceSpec& value) {
    if (!value.is_program() && (value.paths.empty() || (value.takes_all() && value.parts.empty() &&
                                                        value.format == DataFormat::kAuto)))
      return strings(name, value.paths);
    if (value.parts.size() > 1) return source_parts(name, value);
    add(name, inline_text([&](Printer& inner) {
          inner.strings("path", value.paths);
          if (!value.parts.empty()) visit_source_part(inner, value.parts[0]);
          visit_source(inner, value);
          if (value.shard_count == 1) return;
          inner.add("shard",
                    inline_text([&](Printer& shard) { visit_source_shard(shard, value); }));
        }));
  }

  void source_parts(const char* name, const SourceSpec& value) {
    auto path = value.paths.begin();
    add(name, list_text(value.parts, [&](const SourcePart& part) {
          const std::vector<std::string> paths(path, path + part.paths);
          path += part.paths;
          return inline_text([&](Printer& inner) {
            inner.strings("path", paths);
            if (value.format != DataFormat::kAuto)
              inner.enumeration("format", value.format, kFormatNames, {});
            visit_source_part(inner, part);
          });
        }));
  }

  void transforms(const char* name, const std::vector<TransformSpec>& value) {
    if (value.empty()) return;
    add(name, list_text(value, [](const TransformSpec& spec) {
          return inline_text([&](Printer& inner) { visit_transform(inner, spec); });
        }));
  }
  void init(const char* name, const std::optional<InitSpec>& value) {
    if (!value) return;
    add(name, inline_text([&](Printer& inner) {
          inner.enumeration("type", value->type, kInitNames, {});
          inner.real("scale", value->scale, Range{});
        }));
  }

  void schedule(const char* name, const ScheduleSpec& value) {
    if (!value.given()) return;
    add(name, inline_text([&](Printer& inner) { visit_schedule(inner, value); }));
  }

  template <typename F>
  void table(const char* name, F&& visit) {
    Printer inner(path_.empty() ? name : str(path_, ".", name), compress_, tables_);
    inner.begin();
    visit(inner);
  }

  template <typename T, typename F>
  void tables(const char* name, const std::vector<T>& values, F&& visit,
              const char* /*first*/ = nullptr) {
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string path = str(path_, ".", name, "[", i, "]");
      T plain;
      if constexpr (requires { plain.type = values[i].type; }) plain.type = values[i].type;
      if constexpr (requires { plain.optimizer; }) {
        tables_.push_back({path, str(path_, ".", name), values_of(values[i], visit)});
      } else {
        tables_.push_back({path, str(path_, ".", name),
                           without(values_of(values[i], visit), values_of(plain, visit))});
      }
    }
  }

  void fields(const char* name, const std::vector<FieldSpec>& values) {
    std::vector<std::string> names;
    for (const FieldSpec& field : values) names.push_back(field.name);
    const auto visit = [](Printer& inner, const FieldSpec& field) { visit_field(inner, field); };
    for (size_t i = 0; i < values.size();) {
      FieldSpec like = values[i];
      size_t alike = 1;
      const size_t length = compress_ ? run_length(names, i) : 1;
      for (; alike < length; ++alike) {
        like.name = names[i + alike];
        if (!(values[i + alike] == like)) break;
      }
      const std::string shown = alike > 2 ? names[i] + ".." + names[i + alike - 1] : names[i];
      tables_.push_back({str(path_, ".", name, ".", toml_key(names[i])),
                         str(path_, ".", name, ".", toml_key(shown)), values_of(values[i], visit)});
      i += alike > 2 ? alike : 1;
    }
  }

  void unavailable(std::initializer_list<const char*> /*names*/) {}

  /// Opens this printer's table. All later add() calls write to it, even after other tables are
  /// opened.
  void begin() {
    table_index_ = tables_.size();
    tables_.push_back({path_, path_, {}});
  }

 private:
  using Values = std::vector<std::pair<std::string, std::string>>;

  void add(const char* name, std::string value) {
    tables_[table_index_].values.emplace_back(name, std::move(value));
  }

  template <typename T, typename F>
  Values values_of(const T& value, F&& visit) const {
    std::vector<PrintedTable> scratch;
    Printer inner({}, compress_, scratch);
    inner.begin();
    visit(inner, value);
    return std::move(scratch[0].values);
  }

  static Values without(Values values, const Values& plain) {
    std::erase_if(values, [&](const auto& value) {
      const bool mandatory = value.first == "type";
      return !mandatory && std::find(plain.begin(), plain.end(), value) != plain.end();
    });
    return values;
  }

  template <typename F>
  static std::string inline_text(F&& visit) {
    std::vector<PrintedTable> scratch;
    Printer inner({}, false, scratch);
    inner.begin();
    visit(inner);
    std::string text;
    for (const auto& [key, value] : scratch[0].values) {
      text += str(text.empty() ? "{ " : ", ", key, " = ", value);
    }
    return text + " }";
  }

  std::string path_;
  bool compress_;
  std::vector<PrintedTable>& tables_;
  size_t table_index_ = 0;
};

}  // namespace

std::vector<PrintedTable> print_tables(const Job& job, bool compress) {
  std::vector<PrintedTable> tables;
  Printer printer({}, compress, tables);
  printer.begin();
  visit_job(printer, job);
  return tables;
}

}  // namespace downpour
