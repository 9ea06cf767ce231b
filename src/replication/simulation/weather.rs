//! The weather of a simulation: links break and mend, nodes fall ill, crash and come back.

use super::node::Sick;
use super::world::{Event, NOTE_EVERY, World};

impl World {
    pub(super) fn note_places(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        if this.is_up {
            for (peer, link) in &this.links {
                this.noted.insert(*peer, link.sender.note());
            }
        }
        self.after(NOTE_EVERY, Event::Note { node });
    }

    /// The weather changes: links break and mend, nodes fall ill, crash, and lose their windows.
    pub(super) fn weather(&mut self) {
        if self.is_calm {
            return;
        }
        let count = self.nodes.len();
        if self.setup.partitions {
            for from in 0..count {
                for to in 0..count {
                    let was = self.blocked[from][to];
                    let mends = if self.setup.expires { 4 } else { 40 };
                    let breaks = if self.setup.expires { 2 } else { 8 };
                    let changes = self.random.chance(if was { mends } else { breaks });
                    if changes {
                        self.blocked[from][to] = !was;
                        // Most partitions cut both ways.
                        if self.random.chance(70) {
                            self.blocked[to][from] = !was;
                        }
                    }
                }
            }
        }
        let node = self.random.place(count);
        if self.setup.sickness {
            self.nodes[node].sick = match self.random.within(0, 9) {
                0 => Sick::Status(503),
                1 => Sick::Status(500),
                2 => Sick::Garbage,
                3 => Sick::WrongCount,
                _ => Sick::No,
            };
        }
        if self.setup.crashes && self.nodes[node].is_up && self.random.chance(10) {
            self.note(|| format!("n{node} crashes"));
            self.nodes[node].crash();
            let longest = if self.setup.expires { 70_000 } else { 8000 };
            let pause = self.random.within(100, longest);
            self.after(pause, Event::Restart { node });
        }
        if self.random.chance(5) {
            self.nodes[node].forget_removals();
        }
        if self.random.chance(10) {
            let time = self.time;
            self.nodes[node].forget_window(1000, time);
        }
        let next = self.random.within(200, 3000);
        self.after(next, Event::Weather);
    }

    pub(super) fn restart(&mut self, node: usize) {
        if self.nodes[node].is_up {
            return;
        }
        self.note(|| format!("n{node} restarts"));
        let time = self.time;
        // Where a test crashes nodes itself, it says itself what becomes of their notes.
        if self.setup.crashes && self.random.chance(20) {
            self.nodes[node].noted.clear();
        }
        self.nodes[node].restart(time);
        self.start_links(node);
    }

    /// The end of the storm: everybody is up and every link works.
    pub(super) fn clear_up(&mut self) {
        self.note(|| "the weather clears".into());
        self.is_calm = true;
        for row in &mut self.blocked {
            row.fill(false);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].sick = Sick::No;
            self.restart(node);
        }
        self.last_change = self.time;
    }
}
