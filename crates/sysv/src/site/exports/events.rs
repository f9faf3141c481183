//! What userfaultfds tell of images: faults, forks, and mappings that move or go; and which images are gone.

use core::ops::Range;
use std::sync::Arc;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;

use super::super::end;
use super::super::images::{Fault, Image, ImageKey};
use super::super::kernel::Kernel;
use super::super::userfault::Event;
use super::{Attach, Notification, State};

impl<K: Kernel> State<K> {
    /// The faults of an image that are to be served; none at all of one that is gone.
    pub(in super::super) fn faults(&mut self, key: ImageKey) -> Option<Vec<Fault>> {
        self.read_events(key);
        self.images.get_mut(&key).map(|image| core::mem::take(&mut image.pending))
    }

    /// Reads the events of an image in place of who serves it, who is told of faults.
    pub(super) fn take_events(&mut self, key: ImageKey) {
        self.read_events(key);
        if let Some(image) = self.images.get(&key).filter(|image| !image.pending.is_empty()) {
            image.notify(&mut self.kernel);
        }
    }

    /// Reads the events of an image: children are there when this returns, faults are kept.
    fn read_events(&mut self, key: ImageKey) {
        let Some(image) = self.images.get(&key) else { return };
        let userfault = Arc::clone(&image.userfault);
        let events = self.kernel.events(&userfault).unwrap_or_else(|errno| no_child(errno));
        for event in events {
            match event {
                Event::Fault { address, writes, is_missing } => {
                    if let Some(image) = self.images.get_mut(&key) {
                        let address = address & !(PAGE_BYTES - 1);
                        image.pending.push(Fault { address, writes, is_missing });
                    }
                }
                Event::Fork(child) => self.forked(key, child),
                Event::Moved { from, to, bytes } => self.moved(key, from..from + bytes, to),
                Event::Unmapped { start, end } => self.unmapped(key, start..end),
            }
        }
    }

    fn forked(&mut self, parent: ImageKey, child: K::Guard) {
        let Some(image) = self.images.get_mut(&parent) else { return };
        let number = core::mem::take(&mut image.next_fork);
        let pid = image.process.map_or(0, |(pid, _)| pid);
        let eventfd = self.kernel.eventfd().unwrap_or_else(|errno| no_child(errno));
        let child = self.insert(Image::new(child, eventfd, None, number));
        for segment in self.segments.values_mut() {
            let of_parent = segment.attaches.iter().filter(|attach| attach.image == parent);
            let of_child: Vec<_> =
                of_parent.map(|attach| Attach { image: child, ..attach.clone() }).collect();
            for _ in &of_child {
                self.notifications.push_back(Notification::Forked { segment: segment.id, pid });
            }
            segment.attaches.extend(of_child);
        }
    }

    /// What has moved is attached elsewhere; what stays of its attach counts for itself.
    fn moved(&mut self, key: ImageKey, from: Range<usize>, to: usize) {
        let pid = self.images.get(&key).and_then(|image| image.process).map_or(0, |(pid, _)| pid);
        for segment in self.segments.values_mut() {
            let of_image = |attach: &mut Attach| attach.image == key;
            let before: Vec<Attach> = segment.attaches.extract_if(.., of_image).collect();
            for attach in before {
                let mut pieces = rest(&attach, &from);
                pieces.extend(within(&attach, &from).map(|mut moved| {
                    moved.start = moved.start - from.start + to;
                    moved
                }));
                for _ in 1..pieces.len() {
                    self.notifications.push_back(Notification::Forked { segment: segment.id, pid });
                }
                segment.attaches.extend(pieces);
            }
        }
    }

    /// What is unmapped is detached; where parts stay, each counts as an attach, as mappings do in the kernel. Nothing that is mapped
    /// at the same place meanwhile is here yet: it is write-protected before it is, and the kernel refuses that until this event
    /// is read.
    fn unmapped(&mut self, key: ImageKey, range: Range<usize>) {
        let pid = self.images.get(&key).and_then(|image| image.process).map_or(0, |(pid, _)| pid);
        for segment in self.segments.values_mut() {
            let of_image = |attach: &mut Attach| attach.image == key;
            let before: Vec<Attach> = segment.attaches.extract_if(.., of_image).collect();
            for attach in before {
                let left = rest(&attach, &range);
                match left.len() {
                    0 => self
                        .notifications
                        .push_back(Notification::Detached { segment: segment.id, pid }),
                    1 => {}
                    _ => self
                        .notifications
                        .push_back(Notification::Forked { segment: segment.id, pid }),
                }
                segment.attaches.extend(left);
            }
        }
    }

    /// Looks which images are gone, and detaches them.
    pub(in super::super) fn sweep(&mut self) {
        let kernel = &mut self.kernel;
        let mut gone = |image: &Image<K>| {
            kernel.protect(&image.userfault, (image.probe, PAGE_BYTES), true) == Err(Errno::SRCH)
        };
        let gone: Vec<ImageKey> =
            self.images.iter().filter(|(_, image)| gone(image)).map(|(key, _)| *key).collect();
        for key in gone {
            let Some(image) = self.images.remove(&key) else { continue };
            let pid = image.process.map_or(0, |(pid, _)| pid);
            for segment in self.segments.values_mut() {
                let before = segment.attaches.len();
                segment.attaches.retain(|attach| attach.image != key);
                for _ in segment.attaches.len()..before {
                    self.notifications
                        .push_back(Notification::Detached { segment: segment.id, pid });
                }
            }
            image.notify(&mut self.kernel);
        }
    }
}

/// A child of a program would be guarded by nobody, and fill holes with zeros.
fn no_child(errno: Errno) -> ! {
    end(&format!("a program forks, and the site cannot serve the child: {errno}; raise ulimit -n"))
}

/// What is left of an attach when a range of addresses is unmapped.
fn rest(attach: &Attach, range: &Range<usize>) -> Vec<Attach> {
    let pieces = [attach.start..range.start, range.end..attach.start + attach.bytes()];
    pieces.iter().filter_map(|piece| within(attach, piece)).collect()
}

/// The part of an attach that lies in a range of addresses, if any does.
fn within(attach: &Attach, range: &Range<usize>) -> Option<Attach> {
    let start = attach.start.max(range.start);
    let end = (attach.start + attach.bytes()).min(range.end);
    if start >= end {
        return None;
    }
    let page = |address: usize| attach.part.start + (address - attach.start) / PAGE_BYTES;
    let mut piece = Attach { start, part: page(start)..page(end), ..attach.clone() };
    for page in attach.part.clone().filter(|page| !piece.part.contains(page)) {
        piece.writable.set(page, false);
    }
    Some(piece)
}

#[cfg(test)]
mod tests {
    use super::super::pages::Pages;
    use super::*;

    #[test]
    fn what_is_left_of_an_attach_keeps_its_pages_and_who_may_write_them() {
        let mut writable = Pages::none(10);
        writable.set(8, true);
        let attach = Attach { image: ImageKey(1), start: 0x10_0000, part: 2..10, writable };
        let at = |page: usize| 0x10_0000 + page * PAGE_BYTES;
        let left = |pages: Range<usize>| -> Vec<_> {
            let left = rest(&attach, &(at(pages.start)..at(pages.end)));
            assert!(left.iter().all(|piece| piece.writable.has(8) == piece.part.contains(&8)));
            left.into_iter().map(|piece| (piece.start, piece.part)).collect()
        };
        assert_eq!(left(0..8), []);
        assert_eq!(left(20..30), [(at(0), 2..10)]);
        assert_eq!(left(0..3), [(at(3), 5..10)]);
        assert_eq!(left(6..9), [(at(0), 2..8)]);
        assert_eq!(left(3..4), [(at(0), 2..5), (at(4), 6..10)]);
    }
}
