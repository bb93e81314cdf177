"""State: its values, and the entries of dictionaries.

A string's bytes, and those of a message, are copied into the state when it is assigned, and out of it when it is used:
values that a step has read do not change with the state.
"""

from __future__ import annotations

from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.types import DictionaryOf, ListOf, Type, bound_of
from sluice.service.lower.values import TEXTS
from sluice.service.lower.writer import ARENA, Kept, RuleWriter


class StateWriter(RuleWriter):
    """Writes the operations of a rule on state."""

    def value(self, node: tree.Expression) -> str:
        raise NotImplementedError

    def state_of(self, node: tree.Expression) -> Kept | None:
        """The state that an expression names."""
        if not isinstance(node, tree.Name) or node.binding not in self.kept:
            return None
        kept = self.kept[node.binding]
        self.shares = self.shares or kept.everywhere
        return kept

    def loaded(self, kept: Kept, place: Place) -> str:
        """The value of a state variable."""
        if isinstance(kept.type, ListOf):
            found = self.variable(kept.type, place)
            self.copy_list(found, kept.value)
        elif self.values.flat(kept.type):
            return kept.value
        else:
            found = self.keep(kept.value, kept.type, place)
        if not self.values.flat(kept.type):
            self.into_arena(found, kept.type, place)
        return found

    def copy_list(self, to: str, source: str) -> None:
        """The items of a list, which has another cardinality in state."""
        self.put(f"{to}.count = {source}.count;")
        self.put(f"memcpy({to}.items, {source}.items, {source}.count * sizeof {to}.items[0]);")

    def into_arena(self, found: str, type: Type, place: Place) -> None:
        """Give the bytes of a variable a place in the step's memory."""
        self.arena = True
        size, at = self.raw_variable("uint64_t"), self.raw_variable("uint8_t *")
        self.put(f"{size} = {self.values.texts(type, place)}(&{found});")
        self.fault(f"{size} > {ARENA} - f->used", "LIMIT")
        self.put(f"{at} = f->arena + f->used;")
        self.put(f"{self.values.copy(type, place)}(&{found}, &{at});")
        self.put(f"f->used += {size};")

    def fits(self, value: str, type: Type, place: Place) -> None:
        """A fault if the bytes of a value are more than state has room for."""
        if not self.values.flat(type):
            self.fault(f"{self.values.texts(type, place)}(&{value}) > {TEXTS}", "LIMIT")

    def set_state(self, kept: Kept, node: tree.Expression, place: Place) -> None:
        """Assign to a state variable."""
        value = self.keep(self.value(node), kept.type, place)
        self.fits(value, kept.type, place)
        if not self.values.flat(kept.type):
            at = self.raw_variable("uint8_t *")
            self.put(f"{at} = {kept.room};")
            self.put(f"{self.values.copy(kept.type, place)}(&{value}, &{at});")
        if isinstance(kept.type, ListOf):
            self.fault(f"{value}.count > {bound_of(kept.type)}", "LIMIT")
            self.copy_list(kept.value, value)
        else:
            self.put(f"{kept.value} = {value};")

    # --- dictionaries

    def dictionary(self, node: tree.Expression) -> tuple[Kept, DictionaryOf]:
        kept = self.state_of(node)
        if kept is None or not isinstance(kept.type, DictionaryOf):
            raise ServiceError(node.place, "this does not name a dictionary", "a dictionary is state: use its name.")
        return kept, kept.type

    def key_of(self, node: tree.Expression, type: DictionaryOf) -> str:
        """A variable with the bytes of a key."""
        value = self.keep(self.value(node), type.key, node.place)
        key = self.raw_variable("struct service_key")
        self.put(f"{key}.length = 0;")
        self.fault(f"!{self.values.key(type.key, node.place)}(&{value}, &{key})", "LIMIT")
        return key

    def entry(self, node: tree.Index) -> tuple[str, DictionaryOf]:
        """A variable that points to the entry of a dictionary, or is null."""
        kept, type = self.dictionary(node.base)
        key = self.key_of(node.index, type)
        found = self.raw_variable(f"{self.states.entry(type, node.place)} *")
        self.put(f"{found} = service_dictionary_find({kept.value}, &{key});")
        return found, type

    def looked_up(self, node: tree.Index) -> str:
        """The value of a key; 0 or empty if there is none."""
        entry, type = self.entry(node)
        found = self.zero(type.value, node.place)
        with self.block(f"if ({entry})"):
            self.put(f"{found} = {entry}->value;")
            if not self.values.flat(type.value):
                self.into_arena(found, type.value, node.place)
        return found

    def set_entry(self, node: tree.Index, given: tree.Expression, place: Place) -> None:
        """Assign to an entry; None removes it."""
        kept, type = self.dictionary(node.base)
        if isinstance(given, tree.Name) and given.binding is None and given.name == "None":
            key = self.key_of(node.index, type)
            self.put(f"service_dictionary_remove({kept.value}, &{key});")
            return
        value = self.keep(self.value(given), type.value, place)
        key = self.key_of(node.index, type)
        self.fits(value, type.value, place)
        entry = self.raw_variable(f"{self.states.entry(type, place)} *")
        self.put(f"{entry} = service_dictionary_put({kept.value}, &{key});")
        if kept.everywhere:
            with self.block(f"if (!{entry})"):
                self.put(f"service_dictionary_evict({kept.value});")
                self.put("service_count(self, SERVICE_EVICTED, 1);")
                self.put(f"{entry} = service_dictionary_put({kept.value}, &{key});")
        else:
            self.fault(f"!{entry}", "LIMIT")
        self.put(f"{entry}->value = {value};")
        if not self.values.flat(type.value):
            at = self.raw_variable("uint8_t *")
            self.put(f"{at} = {entry}->room;")
            self.put(f"{self.values.copy(type.value, place)}(&{entry}->value, &{at});")
