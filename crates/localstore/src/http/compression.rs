//! Compression of bodies: HTTP's content encodings for requests, and ClickHouse's own blocks for both directions
//! (`compress=1`, `decompress=1`).
//!
//! A block consists of the CityHash128 (its old variant) of the rest, a method byte, the compressed size including
//! these nine bytes, the uncompressed size, and the data. All numbers are little-endian.

use std::io::{self, Read};

use cityhash_rs::cityhash_102_128;

const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
const METHOD_NONE: u8 = 0x02;
const METHOD_LZ4: u8 = 0x82;
const METHOD_ZSTD: u8 = 0x90;
/// ClickHouse's own limit is 1 GiB; clients send blocks of about 1 MiB.
const MAX_BLOCK_BYTES: usize = 128 << 20;
const WRITE_BLOCK_BYTES: usize = 1 << 20;

/// The encoding of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// No encoding.
    #[default]
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 1950.
    Deflate,
    /// Zstandard frames.
    Zstd,
    /// LZ4 frames.
    Lz4,
    /// ClickHouse's own blocks, with LZ4.
    Native,
}

impl Encoding {
    /// Returns the encoding with this name in `Content-Encoding`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Identity,
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "zstd" => Self::Zstd,
            "lz4" => Self::Lz4,
            _ => return None,
        })
    }

    /// Wraps a reader of encoded bytes.
    pub fn decode<'a>(self, reader: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Identity => Box::new(reader),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(reader)),
            Self::Deflate => Box::new(flate2::read::ZlibDecoder::new(reader)),
            Self::Zstd => Box::new(zstd::Decoder::new(reader)?),
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(reader)),
            Self::Native => Box::new(NativeReader { inner: reader, block: io::Cursor::default() }),
        })
    }
}

/// Encodes data as ClickHouse's own blocks, with LZ4.
pub fn native_blocks(data: &[u8]) -> Vec<u8> {
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::new();
    for data in data.chunks(WRITE_BLOCK_BYTES) {
        let compressed = lz4_flex::block::compress(data);
        let compressed_size = size(HEADER_BYTES + compressed.len());
        let block = [&[METHOD_LZ4], &compressed_size[..], &size(data.len()), &compressed].concat();
        out.extend_from_slice(&checksum_bytes(cityhash_102_128(&block)));
        out.extend_from_slice(&block);
    }
    out
}

/// ClickHouse writes the high half first.
fn checksum_bytes(checksum: u128) -> [u8; CHECKSUM_BYTES] {
    checksum.rotate_left(64).to_le_bytes()
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Reads ClickHouse's own blocks.
struct NativeReader<R> {
    inner: R,
    block: io::Cursor<Vec<u8>>,
}

impl<R: Read> NativeReader<R> {
    /// Reads the next block. Returns false at the end of the stream.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut checksum = Vec::with_capacity(CHECKSUM_BYTES);
        match self.inner.by_ref().take(CHECKSUM_BYTES as u64).read_to_end(&mut checksum)? {
            0 => return Ok(false),
            CHECKSUM_BYTES => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let mut block = vec![0_u8; HEADER_BYTES];
        self.inner.read_exact(&mut block)?;
        let number = |range: std::ops::Range<usize>| {
            block
                .get(range)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
        };
        let (method, compressed, uncompressed) =
            (block.first().copied().unwrap_or(0), number(1..5), number(5..9));
        if !(HEADER_BYTES..=MAX_BLOCK_BYTES).contains(&compressed) || uncompressed > MAX_BLOCK_BYTES {
            return Err(invalid("a compressed block has an impossible size"));
        }
        // Memory grows with the received bytes, not with the size that the block claims.
        let rest = (compressed - HEADER_BYTES) as u64;
        self.inner.by_ref().take(rest).read_to_end(&mut block)?;
        if block.len() != compressed {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if checksum != checksum_bytes(cityhash_102_128(&block)) {
            return Err(invalid("a compressed block's checksum does not match"));
        }
        let data = block.get(HEADER_BYTES..).unwrap_or_default();
        self.block = io::Cursor::new(match method {
            METHOD_NONE => data.to_vec(),
            METHOD_LZ4 => lz4_flex::block::decompress(data, uncompressed).map_err(io::Error::other)?,
            METHOD_ZSTD => zstd::bulk::decompress(data, uncompressed)?,
            other => return Err(invalid(format!("unknown compression method {other:#x}"))),
        });
        Ok(true)
    }
}

impl<R: Read> Read for NativeReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.block.read(out)?;
            // A block may be empty.
            if read > 0 || out.is_empty() || !self.next_block()? {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn decoded(encoding: Encoding, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        encoding.decode(body)?.read_to_end(&mut data)?;
        Ok(data)
    }

    #[test]
    fn every_encoding_is_decoded() {
        let data: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 7) as u8).collect();
        let level = flate2::Compression::fast();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        gzip.write_all(&data).unwrap();
        let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), level);
        deflate.write_all(&data).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&data).unwrap();
        for (encoding, body) in [
            (Encoding::Identity, data.clone()),
            (Encoding::Gzip, gzip.finish().unwrap()),
            (Encoding::Deflate, deflate.finish().unwrap()),
            (Encoding::Zstd, zstd::encode_all(data.as_slice(), 1).unwrap()),
            (Encoding::Lz4, lz4.finish().unwrap()),
            (Encoding::Native, native_blocks(&data)),
        ] {
            assert!(decoded(encoding, &body).unwrap() == data, "{encoding:?}");
        }
    }

    #[test]
    fn damaged_blocks_are_refused() {
        let mut encoded = native_blocks(b"some data");
        encoded[20] ^= 1;
        assert!(decoded(Encoding::Native, &encoded).is_err());
        assert!(decoded(Encoding::Native, &[1_u8; 40]).is_err());
    }
}
