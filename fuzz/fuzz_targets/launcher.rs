//! What a node tells its launcher: lines over a stream cut anywhere, against a plain split.
//!
//! Input: counted cuts, then what the node says.
#![cfg_attr(fuzzing, no_main)]

#[path = "../../crates/cli/src/run/control.rs"]
#[allow(dead_code, reason = "the launcher uses more of it")]
mod control;

use control::{Channel, Message, Received, parse};
use multigrain_fuzz::{Input, fuzz_target};
use std::io::Write;
use std::os::unix::net::UnixStream;

fn check(message: &Message) {
    let text = match message {
        Message::Refused(text)
        | Message::Note(text)
        | Message::Race { text, .. }
        | Message::Fatal(text)
        | Message::NotJoined(text)
        | Message::Crash { text, .. }
        | Message::Lost { text, .. }
        | Message::Waits(text)
        | Message::Blocked(text)
        | Message::Deadlock(text)
        | Message::Stats(text) => text,
        Message::Joining { .. }
        | Message::Ready
        | Message::Left
        | Message::Closed
        | Message::Progress(_) => return,
    };
    assert!(!text.contains(char::is_control), "{text:?}");
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let cuts = input.counted();
    let said = input.0;
    let (ours, mut node) = UnixStream::pair().expect("a pair of sockets");
    let mut channel = Channel::new(ours.into()).expect("a channel");
    node.write_all(said).expect("what fits a socket");
    drop(node);
    let mut cuts = cuts.iter().chain(&[255]).map(|&cut| usize::from(cut).max(1)).cycle();
    let (mut received, mut buffer) = (Vec::new(), [0; 255]);
    loop {
        let cut = cuts.next().unwrap_or(1);
        let (messages, state) = channel.receive(&mut buffer[..cut]);
        received.extend(messages);
        if state == Received::End {
            break;
        }
    }
    received.iter().for_each(check);
    let lines = said.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let expected: Vec<Message> =
        lines.filter_map(|line| parse(String::from_utf8_lossy(line).trim_end())).collect();
    assert_eq!(received, expected);
});
