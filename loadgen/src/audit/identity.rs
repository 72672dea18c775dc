//! Who a message is: written into the first bytes of its body, read back from wherever it turns up. Owns the layout;
//! knows nothing of sockets or of what was acknowledged.
//!
//! ```text
//!  0 u32 magic "RMLG"   4 u32 CRC-32 of everything behind   8 u32 length of the body   12 u32 producer
//! 16 u64 run           24 u64 sequence of the producer     32 u64 intended send, ns   40 u32 lane   44 u32 reserved
//! 48 … filler
//! ```
//!
//! The checksum covers the whole body when the audit asks for it, else only the identity (its top bit in the length
//! tells which): end-to-end latency needs the stamp, not a checksum over every byte.

/// Bytes that the identity takes; smaller bodies carry none.
pub const IDENTITY_BYTES: usize = 48;

const MAGIC: u32 = u32::from_be_bytes(*b"RMLG");
const COVERS_ALL: u32 = 1 << 31;

/// Identity of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The run that sent it; tells leftovers of earlier runs apart.
    pub run: u64,
    /// The connection that sent it.
    pub producer: u32,
    /// Its number among that producer's messages, from 0.
    pub sequence: u64,
    /// When it was to be sent, monotonic nanoseconds.
    pub intended_ns: u64,
    /// The queue it was sent to, as a number within the run.
    pub lane: u32,
}

/// What a body turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// One of ours, intact.
    Known(Identity),
    /// It begins as ours do, but its bytes changed.
    Damaged,
    /// Somebody else's.
    Foreign,
}

/// Which bytes the checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Only the identity.
    Identity,
    /// The whole body.
    All,
}

/// Writes the identity over the first bytes of `body`, which holds its filler already.
pub fn write(body: &mut [u8], identity: &Identity, cover: Cover) {
    assert!(body.len() >= IDENTITY_BYTES, "{} bytes hold no identity", body.len());
    let len = u32::try_from(body.len()).expect("bodies are below 4 MiB");
    let (flag, covered) = match cover {
        Cover::Identity => (0, IDENTITY_BYTES),
        Cover::All => (COVERS_ALL, body.len()),
    };
    put_u32(body, 0, MAGIC);
    put_u32(body, 8, len | flag);
    put_u32(body, 12, identity.producer);
    put_u64(body, 16, identity.run);
    put_u64(body, 24, identity.sequence);
    put_u64(body, 32, identity.intended_ns);
    put_u32(body, 40, identity.lane);
    put_u32(body, 44, 0);
    let crc = crc32fast::hash(&body[8..covered]);
    put_u32(body, 4, crc);
}

/// Reads the identity of a body.
pub fn read(body: &[u8]) -> Body {
    if body.len() < IDENTITY_BYTES || get_u32(body, 0) != MAGIC {
        return Body::Foreign;
    }
    let len = get_u32(body, 8);
    let covered = if len & COVERS_ALL != 0 { body.len() } else { IDENTITY_BYTES };
    if (len & !COVERS_ALL) as usize != body.len() || crc32fast::hash(&body[8..covered]) != get_u32(body, 4) {
        return Body::Damaged;
    }
    Body::Known(Identity {
        run: get_u64(body, 16),
        producer: get_u32(body, 12),
        sequence: get_u64(body, 24),
        intended_ns: get_u64(body, 32),
        lane: get_u32(body, 40),
    })
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity =
        Identity { run: 0xABCD, producer: 7, sequence: 1 << 40, intended_ns: 99, lane: 3 };

    #[test]
    fn an_identity_reads_back() {
        for (len, cover) in [(IDENTITY_BYTES, Cover::All), (1024, Cover::All), (1024, Cover::Identity)] {
            let mut body = vec![0x5A; len];
            write(&mut body, &IDENTITY, cover);
            assert_eq!(read(&body), Body::Known(IDENTITY), "{len} {cover:?}");
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut body = vec![0x5A; 100];
        write(&mut body, &IDENTITY, Cover::All);
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 0x10;
            assert_ne!(read(&changed), Body::Known(IDENTITY), "byte {at}");
        }
        assert_eq!(read(&body[..99]), Body::Damaged);
        assert_eq!(read(b"somebody else's message, long enough to hold ours"), Body::Foreign);
        assert_eq!(read(b""), Body::Foreign);
    }
}
