// The fields of packets by which the program finds the part of a variable that belongs to a packet's flow (thesis, 4.3.3).
//
// Thin slices (values only) from the indices of arrays, and from the conditions that end a search through a list or an
// array, to loads from packets. A search compares an entry of the variable with something else; the slice does not
// enter the variable.
#pragma once

#include "fields.h"
#include "slice.h"
#include "updates.h"

namespace analyze {

struct KeyField {
  std::string name;
  const llvm::Instruction *load;    // that reads it from a packet
  const llvm::Instruction *access;  // that finds an entry by it
  bool operator<(const KeyField &other) const { return name < other.name; }
};

// Where a search compares a member of an entry with a value: the entry that belongs to a packet has the same value.
struct Comparison {
  size_t variable;                  // in Classes::persistent()
  const llvm::Instruction *at;      // a comparison of registers, or a call of memcmp
  const llvm::Value *sought;        // the value, or a pointer to it
  std::string entry;                // name of the structure
  uint64_t offset, bytes;           // of the member
};

class Flowspace {
 public:
  Flowspace(const Accesses &accesses, const Receives &receives, const Reach &reach, const Lifetimes &lifetimes,
            const Classes &classes, const Updates &updates, const Fields &fields);

  const std::vector<KeyField> &of(size_t number) const { return keys_[number]; }
  // Every load of a field of a key, of which of() has one for each field.
  const std::vector<KeyField> &loads_of(size_t number) const { return loads_[number]; }
  const std::vector<Comparison> &comparisons() const { return comparisons_; }
  // Slices that became too large, so that the key is not known.
  bool is_complete(size_t number) const { return complete_[number]; }

 private:
  struct Search {  // a loop that looks through memory
    const Loop *loop;
    std::vector<const llvm::Instruction *> branches;  // that end it
    llvm::DenseSet<ObjectId> through;
  };
  struct Index {
    const llvm::Value *index;
    const llvm::Instruction *access;
    llvm::DenseSet<ObjectId> of;
  };

  void find_packets();
  bool ends_origins(const Node &node) const;
  void find_searches();
  void find_indices();
  void assign(size_t number);
  void add_comparisons(size_t number, const Search &search);
  void add(const Slicer &slice, const llvm::Instruction *access, std::vector<KeyField> &keys) const;
  llvm::DenseSet<ObjectId> find_origins(const llvm::Value *pointer);
  const llvm::DenseSet<ObjectId> &origins(const llvm::Value *pointer);
  bool slice(Slicer &slice, const llvm::Value *from);
  bool is_packet(const llvm::Value *pointer) const;

  const Accesses &accesses_;
  const Receives &receives_;
  const Reach &reach_;
  const Lifetimes &lifetimes_;
  const Classes &classes_;
  const Updates &updates_;
  const Fields &fields_;
  static constexpr size_t kMostSteps = 50'000;  // of one slice
  Graph graph_;
  Slicer origins_;  // of pointers
  // work that is left of all slices, and of those for the origins of pointers
  size_t left_ = 8'000'000, left_for_origins_ = 3'000'000;
  std::map<const llvm::Value *, llvm::DenseSet<ObjectId>> known_origins_;
  llvm::DenseSet<ObjectId> packets_;
  std::vector<Search> searches_;
  std::vector<Index> indices_;
  std::vector<std::vector<KeyField>> keys_, loads_;
  std::vector<Comparison> comparisons_;
  std::vector<bool> complete_;
};

}  // namespace analyze
