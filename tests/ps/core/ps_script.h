// PsScript: drives one PsCore by lines of text and prints its effects as lines of text. This is the
// language of tests/scenarios/ps_*.txt. A line at the margin is a command; a line with two spaces
// is an effect.
//
//   ps [bits=2] [incarnation=1] [silence_s=0] [handles=64] [copy_bytes= unwritten_bytes=]
//       Starts a new core. Table 0 has one weight per key; table 1 is a dense bias of 2 floats. SGD
//       with learning rate 1.
//   adopt GENERATION PARTITIONS [sealed=] [folder= [images=]] [lines=] [known=1]
//   view ID me=PARTITIONS@GENERATION;... other=...
//   status round= epoch= shards= [lines=] [known=1]
//   save ID FOLDER [part=EPOCH:SHARDS]
//   freeze GENERATION PARTITIONS
//   sealed EPOCHS
//   stop CODE REASON
//       Messages from the chief. lines= are quarantine markers: BATCH[:withdrawn],...
//   pull wWORKER req= view= keys=TABLE:KEY,...;... [handle|eval]
//   push wWORKER BATCH req= view= covered= records= hash= keys= gradients=
//       [handle=] [fragment=i/n] [pulled=] [loss=] [without=] [givenup]
//   end wWORKER BATCH req= view= covered= applied= hash= [read=] [without=]
//       Messages from a worker. without= is the number of quarantined batches that it knows;
//       givenup marks the batch as quarantined.
//   copy
//       Runs one step of a save. A core without copy_bytes= copies everything at once.
//   loaded [ERROR] / stored [ERROR] / exported [ERROR]
//       Completes the oldest load, all stores so far of the oldest checkpoint, or the oldest
//       export.
//   leave signal= / tick MILLISECONDS
//   values
//       Prints the state of all owned partitions.
//
// Every message passes through the wire codec. The output reports a message that cannot pass. The
// key p2.1 is the second smallest key (counted from 0) of partition 2 in its table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps/core/ps_core.h"

namespace downpour::ps {

/// Words and key=value pairs of one command.
struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
  std::string option(const std::string& name, const std::string& otherwise = "") const;
  uint64_t number(const std::string& name, uint64_t otherwise = 0) const;
};
Command parse_command(const std::string& line);

class PsScript {
 public:
  /// Runs one command. Returns the effects, one per line, indented by two spaces.
  std::string run(const std::string& line);

 private:
  void start(const Command& command);
  void message(PeerKey from, const Command& command, wire::Body body, Bytes keys = {},
               Bytes values = {});
  void adopt(const Command& command);
  void view(const Command& command);
  void pull(const Command& command);
  void push(const Command& command, bool end);
  void loaded(const Command& command);
  void stored(const Command& command);
  void exported(const Command& command);
  std::string values() const;
  std::string print_effects();
  std::string print(const Send& send) const;
  Bytes keys_of(const std::string& text, std::vector<wire::Section>& sections) const;

  PsConfig config_;
  std::unique_ptr<PsCore> core_;
  Effects effects_;
  std::string malformed_;  // error of the codec if no frame can carry the message
  int64_t now_ns_ = 0;
  std::vector<Load> loads_;
  std::vector<Store> stores_;
  std::vector<Export> exports_;
  std::map<ViewId, std::vector<wire::ImageRef>> refs_;
  bool copies_at_once_ = true;
  std::map<std::string, std::vector<checkpoint::PartitionImage>> folders_;
};

}  // namespace downpour::ps
