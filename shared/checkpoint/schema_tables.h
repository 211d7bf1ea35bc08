// Schema tables: converts the tables of a manifest to and from Cap'n Proto. Private to
// shared/checkpoint. Reading may throw kj::Exception.
#pragma once

#include <string>

#include "schemas/checkpoint.capnp.h"
#include "shared/base/result.h"
#include "shared/checkpoint/contents.h"

namespace downpour::checkpoint {

namespace schema = downpour::schema::checkpoint;

/// Converts a text including zero bytes.
inline capnp::Text::Reader text(const std::string& value) { return {value.c_str(), value.size()}; }
inline std::string text_of(capnp::Text::Reader text) {
  return std::string(text.begin(), text.size());
}

void write_table(const TableSpec& table, schema::Table::Builder out);
/// Error kUnsupported: a type that this build does not know.
Result<TableSpec> read_table(schema::Table::Reader in);

}  // namespace downpour::checkpoint
