//! A server of its own for each test, on a port that the system chose.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for bytes before it fails: long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server, ended with the test.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ioserver"))
            .args(["--port", "0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let port = line
            .strip_prefix("listening on 127.0.0.1:")
            .and_then(|rest| rest.split(',').next())
            .unwrap_or_else(|| panic!("the server says {line:?}"))
            .parse()
            .unwrap();
        Self { child, port }
    }

    pub(crate) fn port(&self) -> String {
        self.port.to_string()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes, says that no more come, and returns all that the server says until it closes. A server may close before it
    /// has read all.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
        let mut stream = self.connect();
        let sent = stream.write_all(bytes);
        match sent.and_then(|()| stream.shutdown(Shutdown::Write)) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected) => {}
            Err(error) => panic!("{error}"),
        }
        text(read_to_end(&mut stream))
    }

    /// Fails unless another client is served as usual.
    pub(crate) fn assert_serves(&self) {
        assert_eq!(self.ask(b"PING\r\n"), "+PONG\r\n");
    }

    /// A number of INFO, by its name.
    pub(crate) fn info(&self, name: &str) -> u64 {
        let info = self.ask(b"INFO\r\n");
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.unwrap_or_else(|| panic!("no {name} in {info}"));
        value.parse().unwrap()
    }

    /// The most memory it had so far, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let digits = line.unwrap().trim().trim_end_matches(" kB");
        digits.parse().unwrap()
    }

    /// Waits until no more clients are connected than these, the asking one included.
    pub(crate) fn wait_for_clients(&self, most: u64) {
        let began = Instant::now();
        while self.info("connected_clients") > most {
            assert!(began.elapsed() < PATIENCE, "more than {most} clients");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of a server that was told to end.
    pub(crate) fn wait(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All bytes until the other side closes or resets the connection.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error} after {:?}", text(bytes)),
    }
}

/// Exactly so many bytes as text.
pub(crate) fn read_exactly(stream: &mut TcpStream, n: usize) -> String {
    let mut bytes = vec![0; n];
    stream.read_exact(&mut bytes).unwrap();
    text(bytes)
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
