// Readers of the bodies about membership: who takes part, which ps owns a partition, and
// heartbeats. Each checks the Cap'n Proto data while it reads them.
#pragma once

#include "shared/wire/read_parts.h"

namespace downpour::wire {

void read(schema::Hello::Reader in, Hello& out, Checks& checks);
void read(schema::Welcome::Reader in, Welcome& out, Checks& checks);
void read(schema::Refused::Reader in, Refused& out, Checks& checks);
void read(schema::View::Reader in, View& out, Checks& checks);
void read(schema::Adopt::Reader in, Adopt& out, Checks& checks);
void read(schema::Adopted::Reader in, Adopted& out, Checks& checks);
void read(schema::Heartbeat::Reader in, Heartbeat& out, Checks& checks);

}  // namespace downpour::wire
