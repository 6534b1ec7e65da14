//! Names the shared library, so that programs look for this version of its interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux" | "android" | "freebsd" | "netbsd" | "openbsd") => {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsstfilter.so.0");
        }
        Ok("macos") => println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libsstfilter.0.dylib"),
        _ => {}
    }
}
