//! Server: arcs 28 to 36.

use super::{Mark as M, Row, row, runs};

pub(super) const ROWS: &[Row] = &[
    row(
        &[28, 30],
        ["RREQ", "", "read_dir += src", "RDAT => src"],
        runs("RREQ in Shared", "readers += src, RDAT", M::ServeRead),
    ),
    row(
        &[29, 30],
        ["WREQ", "", "write_dir += src", "WDAT => src"],
        runs("WREQ in Shared", "writers += src, WDAT", M::ServeWrite),
    ),
    row(
        &[29],
        ["WNOTIFY", "", "read_dir -= src, write_dir += src", ""],
        runs("WNOTIFY in Shared", "from readers to writers", M::WriteNotify),
    ),
    row(
        &[31],
        [
            "REL",
            "write_dir != 1",
            "count = read_dir + write_dir, rl = {src}, rd = wr = 0",
            "INV => read_dir + write_dir",
        ],
        runs("REL in Shared, several writers", "INV to all", M::ReleaseAll),
    ),
    row(
        &[31],
        [
            "REL",
            "write_dir == 1, read_dir != 0",
            "count = read_dir + write_dir, rl = {src}, rd = wr = 0",
            "INV => read_dir, 1WINV => write_dir",
        ],
        runs(
            "REL in Shared, one writer and readers",
            "INV to the readers, 1WINV to the writer, who keeps its copy",
            M::ReleaseKeeper,
        ),
    ),
    row(
        &[31],
        [
            "REL",
            "write_dir == 1, read_dir == 0",
            "count = 1, rl = {src}, rd = wr = 0",
            "1WGR => write_dir",
        ],
        runs("REL in Shared, one writer alone", "1WGR", M::ReleaseSingle),
    ),
    row(
        &[32],
        ["REL", "", "count = read_dir + write_dir, rl = {src}, rd = wr = 0", "INV => read_dir"],
        runs(
            "REL in Shared, no writer",
            "INV to the readers. No correct client sends it: who keeps its copy after 1WINV stays in write_dir",
            M::ReleaseReaders,
        ),
    ),
    row(
        &[33],
        ["ACK", "count != 0", "count = count - 1", ""],
        runs("ACK in Releasing", "awaited -= src", M::CountAck),
    ),
    row(
        &[33],
        ["DIFF", "count != 0", "count = count - 1, buffer diff data", ""],
        runs("DIFF in Releasing", "awaited -= src, keep the diff", M::CountDiff),
    ),
    row(
        &[33],
        ["1WDATA", "count != 0", "count = count - 1, copy data to home", ""],
        runs("1WDATA in Releasing", "awaited -= src, store it at home", M::CountData),
    ),
    row(&[33], ["RREQ", "", "rd += src", ""], runs("RREQ in Releasing", "queued", M::QueueRead)),
    row(&[33], ["WREQ", "", "wr += src", ""], runs("WREQ in Releasing", "queued", M::QueueWrite)),
    row(
        &[33],
        ["REL", "", "rl += src", ""],
        runs("REL in Releasing, before its sender's answer", "joins the round", M::QueueRelease),
    ),
    row(
        &[33],
        ["WNOTIFY", "", "", ""],
        runs("WNOTIFY in Releasing", "nothing: the INV on its way brings a diff", M::LateNotify),
    ),
    row(
        &[33],
        ["ACK1W", "rd + wr != 0", "count = 1", "INV => write_dir"],
        runs("ACK1W in Releasing, requests queued", "INV to the writer", M::SingleAckBusy),
    ),
    row(
        &[34],
        [
            "ACK",
            "count == 0",
            "merge diffs, read_dir = write_dir = 0",
            "RACK => rl, RDAT => rd, WDAT => wr",
        ],
        runs(
            "last ACK in Releasing",
            "merge, RACK, RDAT, WDAT; read_dir = rd, write_dir = wr and who kept its copy",
            M::LastAck,
        ),
    ),
    row(
        &[34],
        [
            "DIFF",
            "count == 0",
            "merge diffs, read_dir = write_dir = 0",
            "RACK => rl, RDAT => rd, WDAT => wr",
        ],
        runs("last DIFF in Releasing", "the same", M::LastDiff),
    ),
    row(
        &[34],
        ["1WDATA", "count == 0", "read_dir = write_dir = 0", "RACK => rl, RDAT => rd, WDAT => wr"],
        runs("last 1WDATA in Releasing", "the same", M::LastData),
    ),
    row(
        &[35],
        ["ACK1W", "rd + wr == 0", "", "RACK => rl"],
        runs("ACK1W in Releasing, nothing queued", "RACK, Single", M::SingleAck),
    ),
    row(
        &[36],
        ["RREQ", "", "count = 1, rd = {src}, rl = wr = 0", "INV => write_dir"],
        runs("RREQ in Single", "INV to the writer, queued, Releasing", M::ThirdRead),
    ),
    row(
        &[36],
        ["WREQ", "", "count = 1, wr = {src}, rl = rd = 0", "INV => write_dir"],
        runs("WREQ in Single", "INV to the writer, queued, Releasing", M::ThirdWrite),
    ),
];
